#!/usr/bin/env bash
# Partitioned, matched, replaced, persistent and threaded communication gives the bytes that MPI says.
. "${srcdir:?set by make check}/tests/mpi/lib.sh"
export ZR_TEST_COMPONENTS=$builddir/.libs
ranks 2 "$builddir/tests/mpi/otherways" || bad "otherways, 2 ranks"
ranks 3 "$builddir/tests/mpi/otherways" || bad "otherways, 3 ranks"
finish
