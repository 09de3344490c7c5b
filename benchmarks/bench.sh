#!/usr/bin/env bash
# Bandwidth and latency of ze_range beside UCX's other ways, in interleaved rounds: each round runs
# every contestant once, so that a slow minute of the machine hits them all. Medians of ratios.
# Called by ./run bench, with the environment set.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
rounds=5 objects=64 out=

usage() {
    cat <<'END'
usage: ./run bench [--quick] [--objects N] [--rounds N] [--out DIR]
  --quick      3 rounds and fewer sizes
  --objects N  physical objects per buffer (64)
  --rounds N   rounds (5)
  --out DIR    also write the raw figures to DIR/raw.csv and the table to DIR/bench.md
END
}
number() { # OPTION VALUE MIN MAX
    [[ $2 =~ ^[0-9]+$ ]] && [ "$2" -ge "$3" ] && [ "$2" -le "$4" ] && return
    echo "bench: $1 $2 is not valid, allowed: $3 to $4" >&2
    exit 2
}
quick=
while [ $# -gt 0 ]; do
    case $1 in
    --quick) quick=1 rounds=3 ;;
    --objects) number "$1" "${2:-}" 1 16384; objects=$2; shift ;;
    --rounds) number "$1" "${2:-}" 1 99; rounds=$2; shift ;;
    --out) out=${2:?--out needs a folder}; shift ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; echo "bench: unknown option $1" >&2; exit 2 ;;
    esac
    shift
done

raw=$(mktemp)
trap 'rm -f "$raw"' EXIT

# measure WHAT CONTESTANT UCX_TLS PROGRAM ARGS...: one CSV line per size
measure() {
    local what=$1 who=$2 tls=$3 text
    shift 3
    if ! text=$(env ${tls:+UCX_TLS=$tls} "$here/../tests/mpirun.sh" -np 2 "$@" 2>&1); then
        printf '%s\n' "$text" >&2
        echo "bench: $who failed: $*" >&2
        exit 1
    fi
    awk -v w="$what" -v c="$who" -v r="$round" \
        '$1 ~ /^[0-9]+$/ && NF >= 2 { print w "," c "," r "," $1 "," $2 }' <<<"$text" >>"$raw"
}

sizes_bw=65536:67108864 sizes_lat=8:65536
[ -z "$quick" ] || sizes_bw=262144:16777216
for ((round = 1; round <= rounds; round++)); do
    echo "round $round of $rounds" >&2
    measure bandwidth ze_range '' zr_bw -m "$sizes_bw" --objects "$objects" D D
    measure bandwidth staging '^ze_range' zr_bw -m "$sizes_bw" --objects "$objects" D D
    measure bandwidth cma 'sm,self,cma,ze_copy' zr_bw -m "$sizes_bw" H H
    measure bandwidth one-object '' zr_bw -m "$sizes_bw" --objects 1 D D
    measure latency ze_range '' zr_latency -m "$sizes_lat" --objects "$objects" D D
    measure latency host 'sm,self,cma,ze_copy' zr_latency -m "$sizes_lat" H H
done

# The ratio of two contestants of one round, then the median over rounds; latency: lower is better.
table=$(awk -F, '
    function median(list, n,   a, i, j, t) {
        split(list, a, " ")
        for (i = 2; i <= n; i++)
            for (j = i; j > 1 && a[j] + 0 < a[j - 1] + 0; j--) { t = a[j]; a[j] = a[j - 1]; a[j - 1] = t }
        return n % 2 ? a[(n + 1) / 2] : (a[n / 2] + a[n / 2 + 1]) / 2
    }
    { v[$1, $2, $3, $4] = $5; if (!(($1, $2, $4) in seen)) { seen[$1, $2, $4] = 1; order[++rows] = $1 SUBSEP $2 SUBSEP $4 }
      if ($3 > last) last = $3 }
    END {
        printf "| what | size | against | ze_range | other | ratio (median) | spread |\n|---|---|---|---|---|---|---|\n"
        for (k = 1; k <= rows; k++) {
            split(order[k], o, SUBSEP)
            if (o[2] == "ze_range") continue
            list = mine = theirs = ""; n = 0; low = 1e30; high = 0
            for (r = 1; r <= last; r++) {
                a = v[o[1], "ze_range", r, o[3]]; b = v[o[1], o[2], r, o[3]]
                if (a <= 0 || b <= 0) continue
                q = a / b; list = list " " q; mine = mine " " a; theirs = theirs " " b; n++
                if (q < low) low = q
                if (q > high) high = q
            }
            if (n) printf "| %s | %s | %s | %.2f | %.2f | %.2f | %.2f-%.2f |\n", o[1], o[3], o[2],
                median(mine, n), median(theirs, n), median(list, n), low, high
        }
    }' "$raw")
printf '%s\n' "$table"
if [ -n "$out" ]; then
    mkdir -p "$out"
    { echo what,contestant,round,size,value; cat "$raw"; } >"$out/raw.csv"
    {
        echo "# zerange bench"
        echo
        echo "$(nproc) CPUs, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)," \
            "UCX $(ucx_info -v | sed -n 's/^# Library version: //p'), $objects objects," \
            "$rounds rounds. Bandwidth in MB/s, latency in µs; ratio is ze_range over the other."
        echo
        printf '%s\n' "$table"
    } >"$out/bench.md"
fi
