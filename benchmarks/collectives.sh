#!/usr/bin/env bash
# Collectives on device buffers beside the same on host buffers with CMA: rounds interleaved, for
# each operation, number of ranks and size the medians of both and the median of the rounds' ratios.
# usage: collectives.sh [ROUNDS [RANKS... [-- OPERATION...]]]; ZR_TEST_COMPONENTS names the folder of
# Open MPI's components, for the device's side only: the host's is stock Open MPI.
# SPDX-License-Identifier: BSD-3-Clause
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
: "${ZR_TEST_COMPONENTS:?names the folder of the components}"
rounds=${1:-5}
shift
ranks=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    ranks+=("$1")
    shift
done
[ $# -eq 0 ] || shift
[ ${#ranks[@]} -gt 0 ] || ranks=(2 4)
operations=("$@")
[ $# -gt 0 ] || operations=(zr_allreduce zr_bcast zr_allgather zr_alltoall)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
few=(-m "${ZR_SIZES:-1M:4M}" -i 15 -x 3 --csv)

# one WHO RANKS OPERATION: a line SIZE MICROSECONDS for each size.
one() {
    case $1 in
    device) timeout 100 bash "$here/../tests/mpirun.sh" -np "$2" "$3" D D --objects 8 "${few[@]}" ;;
    host) ZR_TEST_COMPONENTS='' UCX_TLS=sm,self,cma \
        timeout 100 bash "$here/../tests/mpirun.sh" -np "$2" "$3" H H "${few[@]}" ;;
    esac </dev/null 2>>"$work/err" | awk -F, '/^[0-9]/ { print $1, $2 }'
}

for ((round = 0; round < rounds; round++)); do
    for n in "${ranks[@]}"; do
        for operation in "${operations[@]}"; do
            order=(device host)
            [ $((round % 2)) -eq 0 ] || order=(host device)
            for who in "${order[@]}"; do
                one "$who" "$n" "$operation" | while read -r size value; do
                    echo "$operation $n $size $round $who $value"
                done >>"$work/raw"
            done
        done
    done
done
[ -s "$work/raw" ] || { cat "$work/err" >&2; exit 1; }
[ -z "${ZR_RAW:-}" ] || cp "$work/raw" "$ZR_RAW"

awk -v rounds="$rounds" '
    function median(list, n,    v, i, j, t) {
        n = split(list, v, " ")
        for (i = 2; i <= n; i++)
            for (j = i; j > 1 && v[j - 1] + 0 > v[j] + 0; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
        return n == 0 ? "" : n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
    }
    {
        key = $1 " " $2 " " $3
        if (!(key in seen)) { seen[key] = 1; keys[++count] = key }
        at[key, $4, $5] = $6
        all[key, $5] = all[key, $5] " " $6
    }
    END {
        printf "| collective | ranks | bytes | device, us | host with CMA, us | host/device |\n"
        printf "|---|---|---|---|---|---|\n"
        for (k = 1; k <= count; k++) {
            key = keys[k]; ratios = ""
            for (r = 0; r < rounds; r++)
                if (at[key, r, "device"] > 0 && at[key, r, "host"] > 0)
                    ratios = ratios " " at[key, r, "host"] / at[key, r, "device"]
            split(key, w, " ")
            printf "| %s | %d | %d | %.0f | %.0f | %.2f |\n", w[1], w[2], w[3],
                median(all[key, "device"]), median(all[key, "host"]), median(ratios)
        }
    }' "$work/raw"
