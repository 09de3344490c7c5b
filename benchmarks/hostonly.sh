#!/usr/bin/env bash
# A host-only application with and without the plugin: ucx_perftest's tag latency and put bandwidth,
# and OSU-style latency of MPI (zr_latency) on host memory, rounds interleaved so that the machine's mood meets all three alike: without,
# without again (the control) and with. Prints each size's medians and exits 1 where "with" lies
# outside what the control shows of itself.
# SPDX-License-Identifier: BSD-3-Clause
set -uo pipefail
rounds=${1:-9}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

options=()
! ldd "$(command -v ucx_perftest)" | grep -q libmpi || options=(-P 0)
plugin=$(tr ': ' '\n\n' <<<"${LD_PRELOAD:-}" | grep zerange || true)

listening() { grep -qiE ":$(printf '%04X' "$1") [0-9A-F]*:0000 0A" /proc/net/tcp /proc/net/tcp6; }

# perf WHICH TEST SIZE COUNT: the overall column of the last line.
perf() {
    local port=$((20000 + RANDOM % 20000)) server environment=()
    if [ "$1" != with ]; then
        environment=(UCX_PLUGIN_PATH= "LD_PRELOAD=")
    fi
    env "${environment[@]}" timeout 60 ucx_perftest "${options[@]}" -p $port >/dev/null 2>&1 &
    server=$!
    while kill -0 $server 2>/dev/null && ! listening $port; do
        read -rt 0.02 <> <(:)
    done
    env "${environment[@]}" timeout 60 ucx_perftest 127.0.0.1 "${options[@]}" -p $port -t "$2" \
        -s "$3" -n "$4" -w 100 2>/dev/null | awk '$1 == "Final:" { print $5 }'
    wait $server
}

# mpi WHICH SIZE COUNT: microseconds of zr_latency.
mpi() {
    local environment=(A=)
    [ "$1" = with ] || environment=(UCX_PLUGIN_PATH= "LD_PRELOAD=")
    env "${environment[@]}" timeout 60 bash "${srcdir:?}/tests/mpirun.sh" -np 2 zr_latency H H \
        -m "$2:$2" -i "$3" -x 200 2>/dev/null </dev/null | awk '/^[0-9]/ { print $2 }'
}

# A tenth of a second and more each: a shorter run shows what its start left in the caches.
tests=(tag_lat:8:400000 tag_lat:4096:100000 tag_lat:1048576:3000 tag_bw:65536:30000
    ucp_put_bw:8:2000000 mpi:8:300000 mpi:4096:100000)
for ((round = 0; round < rounds; round++)); do
    # The order changes, so that nobody is always first.
    order=(without control with)
    for ((k = 0; k < round % 3; k++)); do order=("${order[@]:1}" "${order[0]}"); done
    for entry in "${tests[@]}"; do
        IFS=: read -r name size count <<<"$entry"
        for which in "${order[@]}"; do
            case $name in
            mpi) mpi "$which" "$size" "$count" ;;
            *) perf "$which" "$name" "$size" "$count" ;;
            esac >>"$work/$name-$size-$which"
        done
    done
done

echo "# plugin: ${plugin:-${UCX_PLUGIN_PATH:-none}}; $rounds rounds; microseconds a message"
printf '%-12s %10s %12s %12s %12s %10s\n' test bytes without control with verdict
status=0
for entry in "${tests[@]}"; do
    IFS=: read -r name size count <<<"$entry"
    # The control's spread: the middle half of both runs without, and no less than 2 %.
    sort -g "$work/$name-$size-without" "$work/$name-$size-control" >"$work/all"
    for which in without control with; do
        sort -g "$work/$name-$size-$which" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
    done | paste -sd' ' >"$work/medians"
    awk -v test="$name" -v size="$size" -v medians="$(cat "$work/medians")" '
        { v[NR] = $1 }
        END {
            split(medians, m, " ")
            low = v[int((NR + 3) / 4)]; high = v[int((3 * NR + 1) / 4)]
            if (low > m[1] * 0.98) low = m[1] * 0.98
            if (high < m[1] * 1.02) high = m[1] * 1.02
            if (m[3] == "" || m[3] > high) bad = 1
            printf "%-12s %10d %12.3f %12.3f %12.3f %10s\n", test, size, m[1], m[2], m[3],
                bad ? "slower" : m[3] < low ? "faster" : "same"
            exit bad
        }' "$work/all" || status=1
done
exit $status
