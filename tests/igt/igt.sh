#!/usr/bin/env bash
# igt.sh LIST...: run IGT's programs, as Debian has them, on the preloaded shim and compare each
# subtest with what the list expects. Of a list:
#   TEST PROFILE SECONDS          a program, the software device, the time limit of its run
#     pass SUBTEST...             expected results of its subtests
#     skip SUBTEST... # why       IGT skips it here and would on that hardware: IGT's own reason
#     fail SUBTEST... # why       is known not to work: counts as a failure, not as a surprise
#     may SUBTEST... # why        passes, or IGT skips it: the machine decides
#     night SUBTEST... # why      passes; takes long, run with ZERANGE_NIGHTLY=1 only
#     out SUBTEST... # why        is not run
# A subtest that the program has and no line names is an error, and so is any other result; one that
# was not as expected runs a second time by itself, since many of IGT's have time limits of their own
# that a busy machine misses. Of 100 subtests that IGT does not skip at least 90 must pass.
set -euo pipefail

programs=${ZERANGE_IGT:-/usr/libexec/igt-gpu-tools}
shim=$builddir/.libs/libi915shim.so
if [ ! -x "$programs/gem_exec_balancer" ]; then
    echo "no IGT here: $programs"
    exit 77
fi
if [ -n "${ZERANGE_SANITIZED:-}" ] || grep -q 'fsanitize' "$builddir/config.status" 2>/dev/null; then
    echo "a shim built with sanitizers cannot be preloaded"
    exit 77
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0 passed=0 ran=0 skips=0

# on PROFILE SECONDS CMD...: CMD with the software device under it.
# Each has a device of its own, and what it leaves running is ended.
runs=0
on() {
    local profile=$1 seconds=$2 pid status=0
    shift 2
    runs=$((runs + 1))
    env ZERANGE_SOFT="$profile" ZERANGE_SHIM_NAME="igt $$ $runs" LD_PRELOAD="$shim" \
        setsid timeout -k 5 "$seconds" "$@" </dev/null &
    pid=$!
    wait "$pid" || status=$?
    kill -KILL -- "-$pid" 2>/dev/null || true
    return "$status"
}

# judge: the expectations in $work/expect ("RESULT SUBTEST"), the program's output in $work/out.
judge() {
    awk -v test="$1" -v profile="$2" -v limit="$3" '
        FILENAME ~ /expect$/ { want[$2] = $1; order[++n] = $2; next }
        /^Starting subtest: / { sub(/^Starting subtest: /, ""); started[$0] = 1; why = ""; next }
        /^Test requirement: / { if (why == "") { why = $0; sub(/^Test requirement: /, "", why) } }
        /^Subtest [^ ]+: / {
            name = $2; sub(/:$/, "", name)
            got[name] = $3 == "SUCCESS" ? "pass" : tolower($3)
            if (got[name] == "skip") reasons[why] = reasons[why] " " name
            next
        }
        END {
            for (i = 1; i <= n; i++) {
                name = order[i]
                if (want[name] == "out") continue
                ran++
                result = name in got ? got[name] : name in started ? "no end in " limit " s" : "not reached"
                if (result == "pass") passed++
                if (result == "skip") skipped++
                if (want[name] == "may" && result ~ /^(pass|skip)$/) continue
                if (result != want[name]) {
                    printf "    WRONG %s@%s: %s, expected %s\n", test, name, result, want[name]
                    again = again "," name
                    wrong++
                }
            }
            printf "%-22s %-12s %3d pass, %d skip, %d fail\n", test, profile, passed, skipped,
                ran - passed - skipped
            for (why in reasons) printf "    skip:%s: %s\n", reasons[why], why == "" ? "said by IGT" : why
            printf "%d %d %d %d %s\n", ran, passed, wrong, skipped, substr(again, 2) >"'"$work"'/sums"
        }' "$work/expect" "$work/out"
}

run_program() { # TEST PROFILE SECONDS
    local test=$1 profile=$2 seconds=$3 all names status=0 sums
    [ -n "$test" ] || return 0
    all=$(on "$profile" 20 "$programs/$test" --list-subtests 2>/dev/null || true)
    for name in $all; do
        grep -q " $name\$" "$work/expect" || {
            echo "    WRONG $test@$name: no line of the list names it"
            bad=$((bad + 1))
        }
    done
    names=$(awk '$1 != "out" { print $2 }' "$work/expect" | paste -sd,)
    [ -n "$names" ] || return 0
    on "$profile" "$seconds" "$programs/$test" --run-subtest "$names" >"$work/out" 2>&1 || status=$?
    judge "$test" "$profile" "$seconds" >"$work/report"
    read -r -a sums <"$work/sums"
    if [ "${sums[2]}" -gt 0 ]; then
        sed 's/WRONG/again:/' "$work/report" | grep 'again:' || true
        on "$profile" "$seconds" "$programs/$test" --run-subtest "${sums[4]}" >>"$work/out" 2>&1 ||
            status=$?
        judge "$test" "$profile" "$seconds" >"$work/report"
        read -r -a sums <"$work/sums"
    fi
    cat "$work/report"
    ran=$((ran + sums[0])) passed=$((passed + sums[1])) bad=$((bad + sums[2]))
    skips=$((skips + sums[3]))
    if [ "${sums[2]}" -gt 0 ]; then
        grep -E 'CRITICAL: (Failed|error|Last)|hangs at|libi915shim' "$work/out" | awk '!s[$0]++' |
            head -n 12 | sed 's/^/    | /' || true
    fi
}

for list in "$@"; do
    test='' profile='' seconds=''
    : >"$work/expect"
    while IFS= read -r line || [ -n "$line" ]; do
        read -r -a words <<<"${line%%#*}"
        [ ${#words[@]} -gt 0 ] || continue
        case ${words[0]} in
        pass | skip | fail | may | night | out)
            case ${words[0]}:$line in
            pass:* | *\#?*) ;;
            *) echo "    WRONG $list: no reason given: $line"; bad=$((bad + 1)) ;;
            esac
            result=${words[0]}
            if [ "$result" = night ]; then
                result=out
                [ -z "${ZERANGE_NIGHTLY:-}" ] || result=pass
            fi
            for name in "${words[@]:1}"; do echo "$result $name" >>"$work/expect"; done
            ;;
        *)
            run_program "$test" "$profile" "$seconds"
            test=${words[0]} profile=${words[1]} seconds=${words[2]}
            : >"$work/expect"
            ;;
        esac
    done <"$list"
    run_program "$test" "$profile" "$seconds"
done
echo "$passed of $ran subtests pass, IGT skips $skips, $bad surprises"
if [ "$passed" -eq 0 ] || [ $((passed * 100)) -lt $(((ran - skips) * 90)) ]; then
    echo "fewer than 90 of 100 that are not skipped pass"
    exit 1
fi
[ "$bad" -eq 0 ]
