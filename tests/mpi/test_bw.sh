#!/usr/bin/env bash
# Every byte of a message arrives, and nothing beside it changes, however the buffers are made.
. "${srcdir:?set by make check}/tests/mpi/lib.sh"

few="-c -i 2 -x 0 -u 1 -W 4"
while IFS='|' read -r name sizes args; do
    # shellcheck disable=SC2086
    passes "$name" "$sizes" zr_bw $args $few
done <<'END'
one object|24|D D -m 1:8388608 --objects 1
a plain allocation|24|D D -m 1:8388608 --objects 0
64 objects|24|D D -m 1:8388608 --objects 64
objects of unequal size|24|D D -m 1:8388608 --objects 7 --unequal
objects mapped at offsets, shorter than the object|24|D D -m 1:8388608 --objects 8 --map-offset
split differently|24|D D -m 1:8388608 --split 5:3
split differently, unequal, at offsets|24|D D -m 1:8388608 --split 64:9 --unequal --map-offset
inside a page|24|D D -m 1:8388608 --objects 8 --offset 4099
one buffer a message|23|D D -m 1:4194304 --split 3:4 --map-offset --offset 1 -b multiple
device to host|24|D H -m 1:8388608 --objects 8
host to device|24|H D -m 1:8388608 --objects 8 --offset 77
host to host|21|H H -m 1:1048576
END

# A device of one copy engine and other commands.
export ZERANGE_SOFT=dg2
# shellcheck disable=SC2086
{
    passes "one engine" 24 zr_bw D D -m 1:8388608 --split 64:9 --unequal --map-offset $few
    passes "one engine, device to host" 24 zr_bw D H -m 1:8388608 --objects 8 --offset 5 $few
}
export ZERANGE_SOFT=pvc

# Ranks beyond the second only wait.
if ! ranks 3 zr_bw D D -m 65536:65536 -c -i 2 -x 0 -u 0 >"$work/out" 2>&1; then
    bad "three ranks"
    cat "$work/out"
fi
finish
