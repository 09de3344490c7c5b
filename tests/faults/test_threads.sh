#!/usr/bin/env bash
# ThreadSanitizer over the driver and the registration cache, with 8 threads in each case.
: "${srcdir:?set by make check}" "${builddir:?set by make check}"

work=$builddir/tests/fuzz/thread
flags=(-g -O1 -std=gnu11 -fno-omit-frame-pointer -fsanitize=thread)
if ! command -v clang >/dev/null; then
    echo "case: threads: skipped: no clang here"
    exit 77
fi
mkdir -p "$work" && cd "$work" || exit 1
. "$srcdir/tests/fuzz/build.sh"

build() {
    local core cache cpp libs
    core_flags
    mapfile -t cache < <(sources libzrrcache_la_SOURCES)
    compile "${cpp[@]}" -- "${core[@]}" "${cache[@]}" tests/fuzz/threads.c || return
    # shellcheck disable=SC2046
    clang "${flags[@]}" tests_fuzz_threads.o $(objects "${core[@]}" "${cache[@]}") "${libs[@]}" \
        -lpthread -o threads
}

if ! build >build.log 2>&1; then
    tail -n 40 build.log
    echo "case: threads: FAILED: it does not build"
    exit 1
fi
TSAN_OPTIONS="halt_on_error=1 exitcode=66 second_deadlock_stack=1" timeout -k 10 300 ./threads
