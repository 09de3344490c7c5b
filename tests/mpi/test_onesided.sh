#!/usr/bin/env bash
# One-sided communication over device memory gives the bytes that MPI says.
. "${srcdir:?set by make check}/tests/mpi/lib.sh"
export ZR_TEST_COMPONENTS=$builddir/.libs
for n in 3 ${ZERANGE_NIGHTLY:+2 4}; do
    timeout -k 5 400 bash "$srcdir/tests/mpirun.sh" -np "$n" "$builddir/tests/mpi/onesided" \
        </dev/null || bad "onesided, $n ranks"
done
finish
