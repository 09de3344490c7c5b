#!/usr/bin/env bash
# Ping-pong in both directions at once, every byte checked.
. "${srcdir:?set by make check}/tests/mpi/lib.sh"

few="-c -i 3 -x 1 -u 1"
while IFS='|' read -r name sizes args; do
    # shellcheck disable=SC2086
    passes "$name" "$sizes" zr_latency $args $few
done <<'END'
device to device|22|D D -m 1:2097152 --objects 8
split differently|22|D D -m 1:2097152 --split 1:33 --unequal --map-offset --offset 9
device and host|22|D H -m 1:2097152 --objects 4
END
finish
