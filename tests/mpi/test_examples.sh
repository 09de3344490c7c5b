#!/usr/bin/env bash
# The examples check their own bytes; what they print is what the documentation shows.
. "${srcdir:?set by make check}/tests/mpi/lib.sh"
ranks 3 "$builddir/examples/expandable" 6 300000 >"$work/out" 2>&1 &&
    grep -q '^Pass: 0 wrong words' "$work/out" || { bad expandable; cat "$work/out"; }
export ZR_TEST_COMPONENTS=$builddir/.libs
ranks 4 "$builddir/examples/halo3d" 40 3 >"$work/out" 2>&1 &&
    grep -q 'Pass, 0 cells differ' "$work/out" || { bad halo3d; cat "$work/out"; }
cat "$work/out"
finish
