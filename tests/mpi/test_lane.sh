#!/usr/bin/env bash
# Large messages between device buffers take ze_range and no other lane; without it they arrive too.
. "${srcdir:?set by make check}/tests/mpi/lib.sh"

export UCX_PROTO_INFO=y
while IFS='|' read -r args; do
    export UCX_LOG_FILE=$work/ucx-%p.log
    rm -f "$work"/ucx-*
    # shellcheck disable=SC2086
    passes "lane of $args" 1 zr_bw D D -m 4194304:4194304 -c -i 2 -x 0 -u 0 -W 2 $args
    lane=$(cat "$work"/ucx-*.log | awk -f "$srcdir/benchmarks/lane.awk")
    case $lane in
    *$'\n'*) bad "$args: more than one lane: $lane" ;;
    "lane: ze_range (rendezvous zero-copy "*) echo "ok: $lane" ;;
    *) bad "$args: ${lane:-no lane found}"; cat "$work"/ucx-*.log ;;
    esac
done <<'END'
--objects 1
--objects 64
--split 3:8 --unequal --map-offset --offset 5
END

# Left out, the plugin still tells UCX what is mapped: else device memory is taken for the host's.
export UCX_TLS=^ze_range
rm -f "$work"/ucx-*
passes "without ze_range" 1 zr_bw D D -m 4194304:4194304 -c -i 2 -x 0 -u 0 -W 2 --objects 8
lane=$(cat "$work"/ucx-*.log | awk -f "$srcdir/benchmarks/lane.awk")
case $lane in
"" | *ze_range*) bad "without ze_range: ${lane:-no lane found}" ;;
*) echo "ok: $lane" ;;
esac
finish
