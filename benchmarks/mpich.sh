#!/usr/bin/env bash
# mpich.sh [ROUNDS [PROGRAM [OPTIONS]]]: a benchmark between device buffers of 8 objects, built with
# Open MPI and with MPICH, in interleaved rounds; medians and the median of the ratios of each round.
# 5 rounds of zr_bw if not given; zr_latency and every other program of two ranks goes too.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
build=$(cd "$(dirname "$(command -v zr_bw)")/.." && pwd -P)
rounds=${1:-5} program=${2:-zr_bw}

for tool in mpicc.mpich mpiexec.mpich; do
    command -v $tool >/dev/null ||
        { echo "mpich.sh: MPICH is not installed: no $tool" >&2; exit 77; }
done
[ -e "$here/$program.c" ] || { echo "mpich.sh: no benchmark $program" >&2; exit 2; }
case $rounds in
'' | *[!0-9]* | 0*) echo "mpich.sh: rounds '$rounds' are not valid: 1 or more" >&2; exit 2 ;;
esac
work=$(mktemp -d "${TMPDIR:-/tmp}/zerange-mpich.XXXXXX")
trap 'rm -rf "$work"' EXIT

sources=()
for file in bench check device options report; do
    sources+=("$here/common/$file.c")
done
mpicc.mpich -std=gnu11 -D_GNU_SOURCE -O2 -I"$build" -I"$here/.." -I"$here/../src" \
    -I"$here/../include" -o "$work/$program" "$here/$program.c" "${sources[@]}" -lze_loader

words=(D D --objects 8 -m 1024:16777216 "${@:3}" --csv)
# The values of a run as "WHO ROUND SIZE VALUE".
values() { sed -n "s/^\([0-9]\+\),\([0-9.]*\).*/$1 $2 \1 \2/p"; }
for ((round = 1; round <= rounds; round++)); do
    bash "$here/../tests/mpirun.sh" -np 2 "$build/benchmarks/$program" "${words[@]}" \
        2>"$work/errors" | values openmpi "$round" || { cat "$work/errors" >&2; exit 1; }
    mpiexec.mpich -n 2 "$work/$program" "${words[@]}" \
        2>"$work/errors" | values mpich "$round" || { cat "$work/errors" >&2; exit 1; }
done >"$work/values"

echo "# $program D D --objects 8, $rounds interleaved rounds; $(mpichversion 2>/dev/null |
    sed -n 's/^MPICH Version: */MPICH /p'), $(mpirun --version | sed -n 1p)"
awk '
function median(text,    n, i, j, v, t) {
    n = split(text, v, " ")
    for (i = 1; i <= n; i++)
        for (j = i + 1; j <= n; j++)
            if (v[j] + 0 < v[i] + 0) { t = v[i]; v[i] = v[j]; v[j] = t }
    return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
}
{
    if (!($3 in seen)) { seen[$3] = 1; sizes[++count] = $3 }
    all[$1, $3] = all[$1, $3] " " $4
    if ($1 == "openmpi") base[$2, $3] = $4
    else if (base[$2, $3] > 0) ratio[$3] = ratio[$3] " " $4 / base[$2, $3]
}
END {
    printf "%10s %14s %14s %8s\n", "# bytes", "Open MPI", "MPICH", "ratio"
    for (i = 1; i <= count; i++)
        printf "%10d %14.2f %14.2f %8.3f\n", sizes[i], median(all["openmpi", sizes[i]]),
               median(all["mpich", sizes[i]]), median(ratio[sizes[i]])
    exit count == 0
}' "$work/values"
