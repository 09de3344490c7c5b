#!/usr/bin/env bash
# Every subset of the transports of one node in UCX_TLS, with device memory between two processes:
# it works with the right bytes, or it is refused without a crash; where a list leaves device memory
# unrecognised, which UCX does not survive, one line says so before.
# SPDX-License-Identifier: BSD-3-Clause
set -u

program=${builddir:?}/tests/ucx/ucp_device
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
unset UCX_PROTO_INFO

has() { case ,$1, in *,"$2",*) return 0 ;; esac; return 1; }

# What a list must lead to: recognised by ze_copy; the peer is reached by sm, cma (with something
# for the first message) or tcp.
wanted() {
    if has "$1" ze_range && ! has "$1" ze_copy; then
        echo unusable
    elif ! has "$1" ze_copy; then
        echo unrecognised
    elif has "$1" sm || has "$1" tcp; then
        echo works
    else
        echo refused
    fi
}

# run TLS FILE WANTED: its output and, last, its exit status. What is said at the start needs no
# end: over tcp it would wait for a peer that could not answer.
run() {
    local limit=60
    case $3 in unusable | unrecognised) limit=10 ;; esac
    UCX_TLS=$1 timeout $limit "$program" >"$2" 2>&1
    echo "exit $?" >>"$2"
}

judge() { # TLS FILE WANTED
    local tls=$1 file=$2 want=$3 crashed='' status ours
    status=$(sed -n 's/^exit //p' "$file")
    grep -q 'killed by signal \(6\|7\|8\|11\)$\|Assertion' "$file" && crashed=1
    ours=$(grep -c 'lists ze_range but no transport\|selects no transport that copies' "$file")
    case $want in
    works) [ "$status" -eq 0 ] && [ "$ours" -eq 0 ] ;;
    refused) [ "$status" -ne 0 ] && [ -z "$crashed" ] && grep -q '^refused: ' "$file" ;;
    # One line a process, whatever UCX does afterwards.
    unusable | unrecognised) [ "$ours" -ge 1 ] && [ "$ours" -le 2 ] ;;
    esac || {
        echo "not ok: UCX_TLS=$tls: wanted $want"
        sed 's/^/    /' "$file" | head -12
        failed=1
        return
    }
    counts[$want]=$((${counts[$want]:-0} + 1))
}

names=(ze_copy ze_range sm cma tcp self)
lists=(ze all ^ze_range ze,sm ze,tcp ze_range,ze,sm)
wants=(refused works works works works works)
for ((bits = 1; bits < 64; bits++)); do
    tls=
    for k in 0 1 2 3 4 5; do
        [ $((bits >> k & 1)) -eq 0 ] || tls=$tls,${names[k]}
    done
    lists+=("${tls:1}")
    wants+=("$(wanted "${tls:1}")")
done

# Two at a time: most of a run is waiting for the other process.
declare -A counts
for ((k = 0; k < ${#lists[@]}; k += 2)); do
    run "${lists[k]}" "$work/a" "${wants[k]}" &
    [ $((k + 1)) -eq ${#lists[@]} ] || run "${lists[k + 1]}" "$work/b" "${wants[k + 1]}"
    wait
    judge "${lists[k]}" "$work/a" "${wants[k]}"
    [ $((k + 1)) -eq ${#lists[@]} ] || judge "${lists[k + 1]}" "$work/b" "${wants[k + 1]}"
done
for want in "${!counts[@]}"; do
    echo "ok: ${counts[$want]} lists: $want"
done
exit $failed
