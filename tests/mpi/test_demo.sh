#!/usr/bin/env bash
# The demonstration: exit 0 with ze_range, 1 without it and for a wrong argument.
. "${srcdir:?set by make check}/tests/mpi/lib.sh"
export PATH="$builddir/benchmarks:$PATH"

status=0
bash "$srcdir/benchmarks/demo.sh" >"$work/out" 2>&1 || status=$?
lines=$(grep -c '^[0-9].* Pass$' "$work/out")
if [ $status -ne 0 ] || [ "$lines" -ne 17 ] ||
    ! grep -qx 'lane: ze_range (rendezvous zero-copy .*)' "$work/out" ||
    ! grep -qxE 'copies shared by [0-9]+ engines?' "$work/out"; then
    bad "demo: exit $status, $lines of 17 sizes passed"
    cat "$work/out"
fi
status=0
bash "$srcdir/benchmarks/demo.sh" --without ze_range >"$work/out" 2>&1 || status=$?
if [ $status -ne 1 ] || ! grep -q '^demo: the lane is not ze_range' "$work/out"; then
    bad "demo --without ze_range: exit $status"
    cat "$work/out"
fi
status=0
bash "$srcdir/benchmarks/demo.sh" --with ze_range >"$work/out" 2>&1 || status=$?
[ $status -eq 2 ] || bad "demo --with: exit $status"
finish
