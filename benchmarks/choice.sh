#!/usr/bin/env bash
# UCX's choice against what else it could take, for one message between two processes on device
# memory: tag latency by size with UCX choosing, with ze_range kept away, and with ze_range forced
# (rendezvous from the first byte). Exits 1 where another way is more than 10 % faster than the
# choice. Its last lines are settings of UCX_ZE_RANGE_* that fit this machine.
# SPDX-License-Identifier: BSD-3-Clause
set -uo pipefail
rounds=${1:-5}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

options=()
! ldd "$(command -v ucx_perftest)" | grep -q libmpi || options=(-P 0)
[ ! -e "${builddir:?}/.libs/perftest_ze.so" ] ||
    export LD_PRELOAD=$builddir/.libs/perftest_ze.so${LD_PRELOAD:+:$LD_PRELOAD}

listening() { grep -qiE ":$(printf '%04X' "$1") [0-9A-F]*:0000 0A" /proc/net/tcp /proc/net/tcp6; }

perf() { # WAY SIZE
    local port=$((20000 + RANDOM % 20000)) server environment=(A=) count=200
    case $1 in
    without) environment=(UCX_TLS=^ze_range) ;;
    read) environment=(UCX_RNDV_THRESH=0 UCX_RNDV_SCHEME=get_zcopy) ;;
    write) environment=(UCX_RNDV_THRESH=0 UCX_RNDV_SCHEME=put_zcopy) ;;
    esac
    [ "$2" -lt 1048576 ] || count=20
    env "${environment[@]}" timeout 60 ucx_perftest "${options[@]}" -p $port >/dev/null 2>&1 &
    server=$!
    while kill -0 $server 2>/dev/null && ! listening $port; do
        read -rt 0.02 <> <(:)
    done
    env "${environment[@]}" timeout 60 ucx_perftest 127.0.0.1 "${options[@]}" -p $port -t tag_lat \
        -m ze-device -s "$2" -n $count -w 5 2>/dev/null | awk '$1 == "Final:" { print $3 }'
    wait $server
}

sizes=(8 256 4096 65536 262144 1048576 4194304 16777216)
ways=(choice without read write)
for ((round = 0; round < rounds; round++)); do
    for size in "${sizes[@]}"; do
        for ((k = 0; k < 4; k++)); do
            way=${ways[(k + round) % 4]}
            perf "$way" "$size" >>"$work/$size-$way"
        done
    done
done

echo "# one way, microseconds (median of $rounds rounds of medians)"
printf '%12s %12s %12s %12s %12s %10s\n' bytes "${ways[@]}" verdict
status=0
for size in "${sizes[@]}"; do
    for way in "${ways[@]}"; do
        sort -g "$work/$size-$way" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] + 0 }'
    done | paste -sd' ' | awk -v size="$size" '
        {
            best = $2
            for (k = 3; k <= 4; k++) if ($k > 0 && $k < best) best = $k
            bad = $1 == 0 || $1 > 1.1 * best
            printf "%12d %12.2f %12.2f %12.2f %12.2f %10s\n", size, $1, $2, $3, $4,
                bad ? "slower" : "fastest"
            exit bad
        }' || status=1
done
median() { sort -g "$work/$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] + 0 }'; }
for way in read:GET write:PUT; do
    awk -v a="$(median "4194304-${way%:*}")" -v b="$(median "16777216-${way%:*}")" \
        -v name="${way#*:}" 'BEGIN {
            if (b > a) printf "UCX_ZE_RANGE_%s_BW=%dMBs\n", name, (16777216 - 4194304) / (b - a) }'
done
exit $status
