#!/usr/bin/env bash
# choice.sh [--rounds N] [--memory TYPES] [--objects N] [--sizes "BYTES..."] [TEST...]
# UCX's choice beside each other way it could take, for one message between two processes: latency
# by size with UCX choosing, and with each way forced. TESTs are ucx_perftest's (tag_lat, ucp_am_lat,
# stream_lat, ucp_put_lat, ucp_get), TYPES its memory types (ze-device), N > 0 makes device memory
# ranges of N objects. A round runs every way once, each time from another one on; a way's time is the
# least of its rounds' medians, as whatever else runs only adds. UCX itself says which way its choice is:
# the way that forces the same is more samples of it, and shows what such a ratio is worth. Exits 1
# where another way is more than 10 % faster than the choice. The last lines of tag_lat are settings of
# UCX_ZE_RANGE_* for this machine.
# SPDX-License-Identifier: BSD-3-Clause
set -uo pipefail
rounds=5 memory=ze-device objects=0
sizes="8 256 1024 4096 16384 65536 131072 262144 524288 1048576 4194304 16777216 67108864"
while [ $# -gt 0 ]; do
    case $1 in
    --rounds) rounds=$2 ;;
    --memory) memory=$2 ;;
    --objects) objects=$2 ;;
    --sizes) sizes=$2 ;;
    -*) echo "choice.sh: unknown option $1" >&2; exit 2 ;;
    *) break ;;
    esac
    shift 2
done
[ $# -gt 0 ] || set -- tag_lat
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

options=(-f)
! ldd "$(command -v ucx_perftest)" | grep -q libmpi || options+=(-P 0)
[ ! -e "${builddir:?}/.libs/perftest_ze.so" ] ||
    export LD_PRELOAD=$builddir/.libs/perftest_ze.so${LD_PRELOAD:+:$LD_PRELOAD}
if [ "$objects" -gt 0 ]; then
    # UCX's hooks of Level Zero leave out who is preloaded; our own ze_copy calls it.
    export PERFTEST_OBJECTS=$objects UCX_MODULES=^ze
fi

listening() { grep -qiE ":$(printf '%04X' "$1") [0-9A-F]*:0000 0A" /proc/net/tcp /proc/net/tcp6; }

# Ways: what UCX may take, then what is forced. Those without ze_range are its best, and each of the
# other transports alone.
declare -A setting=(
    [choice]=A=
    [without]=UCX_TLS=^ze_range
    [posix]=UCX_TLS=ze_copy,posix,self
    [cma]=UCX_TLS=ze_copy,posix,cma,self
    [tcp]=UCX_TLS=ze_copy,tcp,self
    [eager]=UCX_RNDV_THRESH=inf
    [read]="UCX_RNDV_THRESH=0 UCX_RNDV_SCHEME=get_zcopy"
    [write]="UCX_RNDV_THRESH=0 UCX_RNDV_SCHEME=put_zcopy"
    [zcopy]=UCX_ZCOPY_THRESH=0
)
ways_of() { # TEST
    case $1 in
    ucp_put* | ucp_get*) echo choice without posix tcp zcopy ;;
    *) echo choice without posix cma tcp eager read write ;;
    esac
}

# perf TEST WAY: the median time of each size goes to $work/SIZE-WAY, one a round.
perf() {
    local port=$((20000 + RANDOM % 20000)) server environment size name
    read -ra environment <<<"${setting[$2]}"
    env "${environment[@]}" timeout 60 ucx_perftest "${options[@]}" -p $port -b "$work/batch" \
        >/dev/null 2>&1 &
    server=$!
    while kill -0 $server 2>/dev/null && ! listening $port; do
        read -rt 0.02 <> <(:)
    done
    env "${environment[@]}" timeout 60 ucx_perftest 127.0.0.1 "${options[@]}" -p $port \
        -b "$work/batch" 2>/dev/null | awk '$1 ~ /^s[0-9]+$/ { print substr($1, 2), $3 }' \
        >"$work/result"
    wait $server
    for size in $sizes; do
        awk -v size="$size" '$1 == size { t = $2 } END { print t + 0 }' "$work/result" \
            >>"$work/$size-$2"
    done
}

# What UCX says it takes for TEST: "SIZE WAY" for each size, from its tables (as in lane.awk). With
# another type of memory there, the receiver of a rendezvous chooses: its tables are the second file.
chosen() { # TEST
    local port=$((20000 + RANDOM % 20000)) server
    # shellcheck disable=SC2001
    sed 's/-n [0-9]*/-n 1/; s/-w [0-9]*/-w 1/' "$work/batch" >"$work/once"
    UCX_PROTO_INFO=y timeout 60 ucx_perftest "${options[@]}" -p $port -b "$work/once" \
        >"$work/receiver" 2>&1 &
    server=$!
    while kill -0 $server 2>/dev/null && ! listening $port; do
        read -rt 0.02 <> <(:)
    done
    UCX_PROTO_INFO=y timeout 60 ucx_perftest 127.0.0.1 "${options[@]}" -p $port -b "$work/once" \
        >"$work/sender" 2>/dev/null
    wait $server
    awk -v sizes="$sizes" -v test="$1" -v from="${memory%,*}" -v to="${memory#*,}" '
        function trim(s) { gsub(/^[ \t]+|[ \t]+$/, "", s); return s }
        function bytes(s) {
            return s == "inf" ? 2 ^ 62 : s * (s ~ /K$/ ? 1024 : s ~ /M$/ ? 1048576 : 1)
        }
        function way(what, lane) {
            if (FNR == NR && what ~ /rendezvous/ && from != to) return "receiver"
            if (lane !~ /ze_range/) return what ~ /rendezvous|rndv/ || FNR != NR ? "without" : "eager"
            return what ~ /read from/ ? "read" : what ~ /write to/ ? "write" : "zcopy"
        }
        function wanted(line) {
            if (FNR != NR) return index(line, "rendezvous data fetch into " to)
            return index(line, title) && (test ~ /get/ ? line ~ /ze-device/ : index(line, "from " from))
        }
        BEGIN {
            title = " message by ucp_"
            if (test ~ /put/) title = "remote memory write by ucp_put"
            if (test ~ /get/) title = "remote memory read by ucp_get"
            n = split(sizes, size, " ")
        }
        !/\|/ { next }
        { sub(/^[^|]*\|/, "") }
        /cfg#/ { inside = 0; near = !/self/ }
        wanted($0) { inside = near }
        inside && /\.\.|^ *[0-9]+ *\|/ {
            split($0, cell, "|")
            m = split(trim(cell[1]), range, /\.\./)
            for (k = 1; k <= n; k++)
                if (size[k] >= bytes(range[1]) && size[k] <= bytes(range[m]) &&
                    (FNR == NR || found[k] == "receiver"))
                    found[k] = way(cell[2], cell[3])
        }
        END { for (k = 1; k <= n; k++) print size[k], found[k] == "" ? "unknown" : found[k] }
    ' "$work/sender" "$work/receiver" >"$work/chosen"
}

measure() { # TEST
    local ways k round size n
    read -ra ways <<<"$(ways_of "$1")"
    rm -f "$work"/*
    for size in $sizes; do
        # Long enough for pools and caches to be warm in the median.
        n=$((size < 65536 ? 4000 : size < 4194304 ? 400 : size < 33554432 ? 40 : 10))
        echo "s$size -t $1 -m $memory -s $size -w $((n / 5)) -n $n"
    done >"$work/batch"
    chosen "$1"
    for ((round = 0; round < rounds; round++)); do
        for ((k = 0; k < ${#ways[@]}; k++)); do
            perf "$1" "${ways[(k + round) % ${#ways[@]}]}"
        done
    done
    echo "# $1, $memory, ${objects/#0/no} objects: microseconds, $rounds rounds; ratio: the choice" \
        "to the fastest other way"
    printf '%10s' bytes "${ways[@]}" chosen ratio
    printf '  %s\n' verdict
    for size in $sizes; do
        compare "$size" "${ways[@]}" || status=1
    done
}

compare() { # SIZE WAY...
    local size=$1 way files=() same
    same=$(sed -n "s/^$size //p" "$work/chosen")
    shift
    for way in "$@"; do files+=("$work/$size-$way"); done
    # A way that fails for a size has 0 there.
    paste "${files[@]}" | awk -v size="$size" -v ways="$*" -v same="$same" '
        { for (k = 1; k <= NF; k++) if ($k > 0 && !(least[k] > 0 && least[k] < $k)) least[k] = $k }
        END {
            n = split(ways, name, " ")
            printf "%10d", size
            for (k = 1; k <= n; k++) {
                printf "%10.2f", least[k]
                if (name[k] == "choice" || name[k] == same) {
                    if (!(chosen > 0) || (least[k] > 0 && least[k] < chosen)) chosen = least[k]
                } else if (least[k] > 0 && !(best > 0 && best < least[k])) {
                    best = least[k]
                    who  = name[k]
                }
            }
            ratio = best > 0 ? chosen / best : 1
            bad   = !(least[1] > 0) || ratio > 1.1
            printf "%10s%10.2f  %s\n", same, ratio,
                (!(least[1] > 0) ? "failed" : bad ? "slower than " who : "fastest")
            exit bad
        }'
}

least() { sort -g "$work/$1" | awk '$1 > 0 { print; exit }'; }

status=0
for name in "$@"; do
    measure "$name"
    case $name/$sizes in
    tag_lat/*4194304*16777216*)
        for way in read:GET write:PUT; do
            awk -v a="$(least "4194304-${way%:*}")" -v b="$(least "16777216-${way%:*}")" \
                -v name="${way#*:}" 'BEGIN { if (b > a)
                    printf "UCX_ZE_RANGE_%s_BW=%dMBs\n", name, (16777216 - 4194304) / (b - a) }'
        done ;;
    esac
done
exit $status
