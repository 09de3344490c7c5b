#!/usr/bin/env bash
# The driver's tests on every device profile, and with the software device playing every trick that
# hardware may ("dirty", reproduced by its seed). In check: a part of the tests on each profile and
# two seeds; with ZERANGE_NIGHTLY=1: all of them, and 20 seeds on each profile.
set -u
builddir=${builddir:?set by make check}
failed=0 ran=0

smoke=(tests/ze/test_basic tests/ze/test_copy tests/ze/test_events tests/ze/test_physical
    tests/ze/test_range_export tests/ze/test_range_snapshot)
whole=(tests/ze/test_basic tests/ze/test_bench_buffers tests/ze/test_compat tests/ze/test_copy
    tests/ze/test_cpu_access tests/ze/test_event_ipc tests/ze/test_events tests/ze/test_host_memory
    tests/ze/test_physical tests/ze/test_range_export tests/ze/test_range_limits
    tests/ze/test_range_rules tests/ze/test_range_snapshot tests/ze/test_sysman tests/ze/test_threads
    tests/ze/test_usm_ipc tests/unit/test_range tests/ipc/test_ipc)
profiles=(tgl dg2 mtl pvc-fused pvc-uneven guc2 guc4 guc9 execlists2 execlists4 execlists9)

# runs PROFILE DIRTY TEST...
runs() {
    local profile=$1 dirty=$2 test status
    local trick=(${dirty:+"ZERANGE_SOFT_DIRTY=$dirty"})
    shift 2
    for test in "$@"; do
        ran=$((ran + 1))
        env ZERANGE_LOG=info ZERANGE_SOFT="$profile" "${trick[@]+"${trick[@]}"}" timeout -k 5 300 \
            "$builddir/$test" >"$work/out" 2>&1
        status=$?
        [ $status -ne 0 ] || continue
        failed=$((failed + 1))
        echo "$test on $profile${dirty:+, dirty $dirty}: status $status"
        grep -v '^\[ *\(RUN\|OK\)' "$work/out" | tail -n 25 | sed 's/^/    /'
    done
}

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
if [ -n "${ZERANGE_NIGHTLY:-}" ]; then
    for profile in pvc "${profiles[@]}"; do
        runs "$profile" '' "${whole[@]}"
        for seed in $(seq 1 20); do
            runs "$profile" "all,ring:$seed" "${whole[@]}"
        done
    done
else
    for profile in "${profiles[@]}"; do
        runs "$profile" '' "${smoke[@]}"
    done
    runs pvc all,ring:1 "${smoke[@]}"
    runs mtl all,ring:2 "${smoke[@]}"
fi
echo "$ran runs, $failed failed"
[ "$failed" -eq 0 ]
