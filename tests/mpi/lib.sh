# What the tests that start ranks share. Sourced; needs srcdir and builddir from the harness.
# shellcheck shell=bash
set -uo pipefail
: "${srcdir:?set by make check}" "${builddir:?set by make check}"
export PATH="$builddir/benchmarks:$PATH"

work=$(mktemp -d "${TMPDIR:-/tmp}/zerange-test.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
failures=0

# ranks N PROGRAM ARGS...: run under mpirun, for two minutes at most; the script keeps its input.
ranks() {
    local n=$1
    shift
    timeout -k 5 120 bash "$srcdir/tests/mpirun.sh" -np "$n" "$@" </dev/null
}

bad() {
    printf 'FAILED: %s\n' "$*"
    failures=$((failures + 1))
}

# passes NAME SIZES ARGS...: two ranks, or $np, exit 0 and SIZES lines of the table end in Pass.
passes() {
    local name=$1 sizes=$2 status=0 lines
    shift 2
    ranks "${np:-2}" "$@" >"$work/out" 2>"$work/err" || status=$?
    lines=$(grep -c '^[0-9].* Pass$' "$work/out")
    if [ "$status" -ne 0 ] || [ "$lines" -ne "$sizes" ]; then
        bad "$name: $*: exit $status, $lines of $sizes sizes passed"
        cat "$work/out" "$work/err"
    else
        printf 'ok: %s (%s sizes)\n' "$name" "$sizes"
    fi
}

finish() {
    [ "$failures" -eq 0 ]
    exit
}
