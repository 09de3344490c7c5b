#!/usr/bin/env bash
# One-sided communication over device memory gives the bytes that MPI says.
. "${srcdir:?set by make check}/tests/mpi/lib.sh"
export ZR_TEST_COMPONENTS=$builddir/.libs
ranks 2 --mca osc ucx "$builddir/tests/mpi/onesided" || bad "onesided, 2 ranks"
ranks 3 --mca osc ucx "$builddir/tests/mpi/onesided" || bad "onesided, 3 ranks"
finish
