#!/usr/bin/env bash
# Every collective over device memory gives the bytes of the same call on host memory.
. "${srcdir:?set by make check}/tests/mpi/lib.sh"
export ZR_TEST_COMPONENTS=$builddir/.libs
for n in 2 3 ${ZERANGE_NIGHTLY:+4 8}; do
    timeout -k 5 1800 bash "$srcdir/tests/mpirun.sh" -np "$n" "$builddir/tests/mpi/collectives" \
        ${ZERANGE_NIGHTLY:+all} </dev/null || bad "collectives, $n ranks"
done
finish
