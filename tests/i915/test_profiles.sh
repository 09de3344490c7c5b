#!/usr/bin/env bash
# The driver's tests on every device profile, and with the software device playing every trick that
# hardware may ("dirty", reproduced by its seed). In check: a part of them on each profile but pvc,
# on which each runs by itself, and two seeds; with ZERANGE_NIGHTLY=1: all of them, and 20 seeds, on
# each profile.
# ZR_TEST_PROFILES="dg2 mtl" takes these profiles only. As many tests run at once as there are
# CPUs; the table at the end has a line for each profile.
set -u
builddir=${builddir:?set by make check}
jobs=$(nproc)

smoke=(tests/ze/test_basic tests/ze/test_copy tests/ze/test_events tests/ze/test_physical
    tests/ze/test_range_export tests/ze/test_range_snapshot)
whole=(tests/ze/test_basic tests/ze/test_bench_buffers tests/ze/test_compat tests/ze/test_copy
    tests/ze/test_cpu_access tests/ze/test_event_ipc tests/ze/test_events tests/ze/test_expectations
    tests/ze/test_host_memory tests/ze/test_init_properties tests/ze/test_physical
    tests/ze/test_range_export tests/ze/test_range_limits tests/ze/test_range_rules
    tests/ze/test_range_snapshot tests/ze/test_sysman tests/ze/test_threads tests/ze/test_usm_ipc
    tests/unit/test_range tests/ipc/test_ipc)
read -r -a profiles <<<"${ZR_TEST_PROFILES:-pvc tgl dg2 mtl pvc-fused pvc-uneven guc2 guc4 guc9 \
    execlists2 execlists4 execlists9}"

# one PROFILE DIRTY TEST: says what failed; a line for the table in $work/done.
one() {
    local profile=$1 dirty=$2 test=$3 status=0 out
    local trick=(${dirty:+"ZERANGE_SOFT_DIRTY=$dirty"})
    out=$(mktemp "$work/out.XXXXXX")
    env ZERANGE_LOG=info ZERANGE_SOFT="$profile" "${trick[@]+"${trick[@]}"}" timeout -k 5 300 \
        "$builddir/$test" >"$out" 2>&1 || status=$?
    echo "$profile ${dirty:-clean} $status" >>"$work/done"
    [ $status -eq 0 ] || {
        echo "$test on $profile${dirty:+, dirty $dirty}: status $status"
        grep -v '^\[ *\(RUN\|OK\)' "$out" | tail -n 25 | sed 's/^/    /'
    } >"$out.said"
    [ ! -e "$out.said" ] || cat "$out.said"
    rm -f "$out" "$out.said"
}

# runs PROFILE DIRTY TEST...
running=0
runs() {
    local profile=$1 dirty=$2 test
    shift 2
    for test in "$@"; do
        [ "$running" -lt "$jobs" ] || { wait -n; running=$((running - 1)); }
        one "$profile" "$dirty" "$test" &
        running=$((running + 1))
    done
}

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
for profile in "${profiles[@]}"; do
    if [ -n "${ZERANGE_NIGHTLY:-}" ]; then
        runs "$profile" '' "${whole[@]}"
        for seed in $(seq 1 20); do
            runs "$profile" "all,ring:$seed" "${whole[@]}"
        done
        continue
    fi
    case $profile in
    pvc) runs pvc all,ring:1 "${smoke[@]}" ;;
    mtl) runs mtl '' "${smoke[@]}"; runs mtl all,ring:2 "${smoke[@]}" ;;
    *) runs "$profile" '' "${smoke[@]}" ;;
    esac
done
wait
awk '{ if (!($1 in ran)) order[++n] = $1
       ran[$1]++
       if ($2 != "clean" && !(($1, $2) in seen)) { seen[$1, $2] = 1; seeds[$1]++ }
       if ($3 != 0) failed[$1]++ }
     END { for (i = 1; i <= n; i++) { p = order[i]
               printf "%-11s %3d runs, clean and %d dirty seeds: %d failed\n", p, ran[p], seeds[p],
                   failed[p]
               all += ran[p]; bad += failed[p] }
           printf "%d runs, %d failed\n", all, bad
           exit bad != 0 || all == 0 }' "$work/done"
