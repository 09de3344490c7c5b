#!/usr/bin/env bash
# Fuzzing with AddressSanitizer and UndefinedBehaviorSanitizer: handle, object table, broker socket,
# batch buffer, packed key. Each target runs for ZR_FUZZ_SECONDS (30; at night 1200), two at a time,
# from the corpus in tests/fuzz/corpus: a line of hexadecimal digits is an input.
#
# test_fuzz.sh [TARGET...]     all by default
# ZR_FUZZ_KEEP=DIR             keep what was found there, as corpus lines: DIR/TARGET.txt
: "${srcdir:?set by make check}" "${builddir:?set by make check}"

work=$builddir/tests/fuzz
seconds=${ZR_FUZZ_SECONDS:-30}
[ -z "${ZERANGE_NIGHTLY:-}" ] || seconds=${ZR_FUZZ_SECONDS:-1200}
targets=(handle table broker batch)
[ ! -e "$builddir/.libs/libuct_zerange.so.0" ] || targets+=(key)
[ $# -eq 0 ] || targets=("$@")
sanitize=address,undefined
flags=(-g -O1 -std=gnu11 -fno-omit-frame-pointer -fsanitize="$sanitize,fuzzer-no-link"
    -fno-sanitize-recover=undefined)
failed=0

if ! command -v clang >/dev/null; then
    echo "case: fuzzing: skipped: no clang here"
    exit 77
fi
mkdir -p "$work" && cd "$work" || exit 1

. "$srcdir/tests/fuzz/build.sh"

build() {
    local core plugin target cpp libs
    core_flags
    compile "${cpp[@]}" -- "${core[@]}" || return
    for target in handle table broker batch; do
        compile "${cpp[@]}" -- "tests/fuzz/fuzz_$target.c" || return
        # shellcheck disable=SC2046
        clang "${flags[@]}" -fsanitize=fuzzer "tests_fuzz_fuzz_$target.o" \
            $(objects "${core[@]}") "${libs[@]}" -lpthread -o "fuzz_$target" || return
    done
    [[ " ${targets[*]} " == *" key "* ]] || return 0
    mapfile -t plugin < <({
        sources libuct_zerange_la_SOURCES
        sources libzrrcache_la_SOURCES
    } | grep -v 'ucx-plugin/module.c')
    compile "${cpp[@]}" -I"$srcdir/ucx-plugin" $(value UCX_CFLAGS) -- "${plugin[@]}" \
        tests/fuzz/fuzz_key.c || return
    # shellcheck disable=SC2046
    clang "${flags[@]}" -fsanitize=fuzzer tests_fuzz_fuzz_key.o $(objects "${plugin[@]}") \
        -luct -lucs -lucm -lze_loader -lpthread -o fuzz_key
}

# One input a line, in hexadecimal.
unpack_corpus() { # TARGET
    local line n=0
    rm -rf "corpus_$1" && mkdir -p "corpus_$1"
    while read -r line; do
        case $line in '#'* | '') continue ;; esac
        # shellcheck disable=SC2059
        printf "$(sed 's/../\\x&/g' <<<"$line")" >"corpus_$1/seed$n"
        n=$((n + 1))
    done <"$srcdir/tests/fuzz/corpus/$1.txt"
}

pack_corpus() { # TARGET
    local file
    rm -rf "small_$1" && mkdir -p "small_$1"
    "./fuzz_$1" -merge=1 "small_$1" "corpus_$1" >/dev/null 2>&1
    for file in "small_$1"/*; do
        [ "$(stat -c %s "$file")" -gt 600 ] || od -An -v -tx1 "$file" | tr -d ' \n' | sed 's/$/\n/'
    done | grep . | sort | head -n 120 >"$ZR_FUZZ_KEEP/$1.txt"
}

run() { # TARGET
    LSAN_OPTIONS=suppressions="$work/lsan" ASAN_OPTIONS=detect_leaks=1:abort_on_error=1 UBSAN_OPTIONS=print_stacktrace=1 \
        UCX_MEM_EVENTS=n timeout -k 10 $((seconds + 120)) \
        "./fuzz_$1" -max_total_time="$seconds" -timeout=40 -rss_limit_mb=6000 -max_len=2048 \
        -print_final_stats=1 -artifact_prefix="$work/found_$1_" "corpus_$1" >"$1.log" 2>&1
    echo $? >"$1.status"
}

report() { # TARGET
    local status runs seeds
    status=$(cat "$1.status")
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$1.log")
    seeds=$(find "corpus_$1" -name 'seed*' | wc -l)
    if [ "$status" -eq 0 ] && [ "${runs:-0}" -gt 0 ]; then
        echo "case: fuzz $1: passed: $runs executions in $seconds s, $seeds seeds"
    else
        failed=1
        echo "case: fuzz $1: FAILED: status $status after ${runs:-?} executions"
        grep -v '^#' "$1.log" | tail -n 60
        for file in "found_$1_"*; do
            [ ! -e "$file" ] || echo "$file: $(od -An -v -tx1 "$file" | tr -d ' \n')"
        done
    fi
}

if ! build >build.log 2>&1; then
    tail -n 40 build.log
    echo "case: fuzzing: FAILED: the targets do not build"
    exit 1
fi
rm -f found_*
# Built without sanitizers: what only its own objects point to looks lost.
echo 'leak:libze_' >lsan
for target in "${targets[@]}"; do
    unpack_corpus "$target"
done
for ((i = 0; i < ${#targets[@]}; i += 2)); do
    for target in "${targets[@]:i:2}"; do
        run "$target" &
    done
    wait
done
for target in "${targets[@]}"; do
    report "$target"
    [ -z "${ZR_FUZZ_KEEP:-}" ] || pack_corpus "$target"
done
exit $failed
