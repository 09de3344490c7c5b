#!/usr/bin/env bash
# Instructions of one pass of each hot path, counted by callgrind: "path instructions" a line.
# count.sh --check FILE: fail where a path is longer than FILE says by more than the tolerance.
# After a change that is meant: count.sh >benchmarks/hotpaths/counts, with the reason in the commit.
set -euo pipefail
: "${builddir:?set by ./run exec and make check}"
prog=$builddir/benchmarks/hotpaths/hotpaths
[ ! -x "$builddir/benchmarks/hotpaths/.libs/hotpaths" ] || prog=$builddir/benchmarks/hotpaths/.libs/hotpaths
passes=200
tolerance=8 # percent: the same compiler gives the same count, another one nearly so

count() { # PATH
    local text
    text=$(valgrind --tool=callgrind --collect-atstart=no --toggle-collect=zr_hot_path \
        --callgrind-out-file=/dev/null "$prog" "$1" "$passes" 2>&1) || { echo "$text" >&2; exit 1; }
    sed -n 's/^==[0-9]*== Collected : *//p' <<<"$text" | awk -v n="$passes" '{ print int($1 / n) }'
}

command -v valgrind >/dev/null || { echo "valgrind is not installed"; exit 77; }
if [ "${1:-}" != --check ]; then
    for path in detect hit hit-any submit poll export-again; do
        echo "$path $(count "$path")"
    done
    exit
fi
status=0
while read -r path recorded; do
    now=$(count "$path")
    limit=$((recorded + recorded * tolerance / 100 + 2))
    echo "$path: $now instructions, recorded $recorded, limit $limit"
    if [ -z "$now" ] || [ "$now" -eq 0 ] || [ "$now" -gt "$limit" ]; then
        echo "FAILED: $path is longer than it was: find out why, or record it anew (see count.sh)"
        status=1
    fi
done <"${2:?a file of counts}"
exit $status
