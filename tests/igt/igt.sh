#!/usr/bin/env bash
# igt.sh LIST...: run IGT's programs, as Debian has them, on the preloaded shim and compare each
# subtest with what the list expects. Of a list:
#   TEST PROFILE SECONDS            a program, the software device, the time limit of its run
#     pass SUBTEST...               expected results of its subtests
#     timed SUBTEST... # why        passes, and IGT itself measures time in it
#     skip SUBTEST... # TEXT: why   IGT skips it here and would on that hardware
#     lack SUBTEST... # TEXT: why   IGT skips it for what this machine has not: counts as not passed
#     may SUBTEST... # TEXT: why    passes, or is a lack: the machine decides
#     fail SUBTEST... # why         is known not to work: counts as not passed
#     night SUBTEST... # why        passes; takes long, runs with ZERANGE_NIGHTLY=1 only
#     out SUBTEST... # why          is not run
# TEXT is in what IGT itself gives as the reason. A subtest that the program has and no line names is
# an error, and so is any result but the expected one. Only those of `timed` have a second chance, by
# themselves: they fail on a machine that is busy with something else, whatever the device does.
# Of 100 subtests that are run and not skipped for the hardware at least 90 must pass. Programs run
# two at once: most of them wait.
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

# IGT's processes talk by a SysV queue whose key is the same in every program: to each its own.
alone=(unshare --ipc)
"${alone[@]}" true 2>/dev/null || alone=()

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0 passed=0 ran=0 skips=0 nights=0

# on PROFILE SECONDS NAME CMD...: CMD with the software device under it.
# Each has a device of its own, and what it leaves running is ended.
on() {
    local profile=$1 seconds=$2 name=$3 pid status=0
    shift 3
    "${alone[@]}" env ZERANGE_SOFT="$profile" ZERANGE_SHIM_NAME="igt $$ $name" LD_PRELOAD="$shim" \
        setsid timeout -k 5 "$seconds" "$@" </dev/null &
    pid=$!
    wait "$pid" || status=$?
    kill -KILL -- "-$pid" 2>/dev/null || true
    return "$status"
}

# judge DIR TEST PROFILE SECONDS: DIR/expect ("RESULT SUBTEST TEXT") and DIR/out, the program's output.
judge() {
    awk -v test="$2" -v profile="$3" -v limit="$4" -v sums="$1/sums" '
        FILENAME ~ /expect$/ {
            want[$2] = $1; order[++n] = $2
            text[$2] = $0; sub(/^[^ ]+ [^ ]+ ?/, "", text[$2])
            next
        }
        /^Starting subtest: / { sub(/^Starting subtest: /, ""); started[$0] = 1; why = ""; next }
        /^Test requirement: / { if (why == "") { why = $0; sub(/^Test requirement: /, "", why) } }
        /^Subtest [^ ]+: / {
            name = $2; sub(/:$/, "", name)
            got[name] = $3 == "SUCCESS" ? "pass" : tolower($3)
            if (got[name] == "skip") { reason[name] = why; reasons[why] = reasons[why] " " name }
            if (name in started) why = "" # a group that is skipped has one reason, and starts none
            next
        }
        END {
            for (i = 1; i <= n; i++) {
                name = order[i]; w = want[name]
                if (w == "night") nights++
                if (w == "out" || w == "night") continue
                result = name in got ? got[name] : name in started ? "no end in " limit " s" : "not reached"
                if (result == "skip" && w == "skip") skipped++
                else { ran++; if (result == "pass") passed++ }
                ok = w == "timed" || w == "pass" ? result == "pass" : \
                     w == "lack" || w == "skip" ? result == "skip" : \
                     w == "may" ? result ~ /^(pass|skip)$/ : result == w
                if (ok && result == "skip" && (text[name] == "" || !index(reason[name], text[name]))) {
                    printf "    WRONG %s@%s: skipped for \"%s\", expected \"%s\"\n", test, name,
                        reason[name], text[name]
                    wrong++
                } else if (!ok) {
                    printf "    WRONG %s@%s: %s, expected %s\n", test, name, result, w
                    if (w == "timed") again = again "," name
                    wrong++
                }
            }
            printf "%-20s %-11s %3d pass, %d not, %d skipped for the hardware\n", test, profile, passed,
                ran - passed, skipped
            for (why in reasons) printf "    skip:%s: %s\n", reasons[why], why
            printf "%d %d %d %d %d %s\n", ran, passed, wrong, skipped, nights, substr(again, 2) >sums
        }' "$1/expect" "$1/out"
}

run_program() { # DIR TEST PROFILE SECONDS
    local dir=$1 test=$2 profile=$3 seconds=$4 all name names sums missing=0
    all=$(on "$profile" 20 "${dir##*/} list" "$programs/$test" --list-subtests 2>/dev/null || true)
    [ -n "$all" ] || { echo "    WRONG $test: it lists no subtest"; missing=1; }
    for name in $all; do
        grep -q "^[a-z]* $name\( \|\$\)" "$dir/expect" || {
            echo "    WRONG $test@$name: no line of the list names it"
            missing=$((missing + 1))
        }
    done
    : >"$dir/out"
    names=$(awk '$1 != "out" && $1 != "night" { print $2 }' "$dir/expect" | paste -sd,)
    [ -z "$names" ] || on "$profile" "$seconds" "${dir##*/}" "$programs/$test" --run-subtest "$names" \
        >"$dir/out" 2>&1 || true
    judge "$dir" "$test" "$profile" "$seconds" >"$dir/report"
    read -r -a sums <"$dir/sums"
    if [ -n "${sums[5]:-}" ]; then
        sed -n 's/WRONG/again:/p' "$dir/report"
        on "$profile" "$seconds" "${dir##*/} again" "$programs/$test" --run-subtest "${sums[5]}" \
            >>"$dir/out" 2>&1 || true
        judge "$dir" "$test" "$profile" "$seconds" >"$dir/report"
        read -r -a sums <"$dir/sums"
    fi
    cat "$dir/report"
    echo "${sums[0]} ${sums[1]} $((sums[2] + missing)) ${sums[3]} ${sums[4]}" >"$dir/sums"
    if [ "${sums[2]}" -gt 0 ]; then
        grep -E 'CRITICAL: (Failed|error|Last)|hangs at|libi915shim' "$dir/out" | awk '!s[$0]++' |
            head -n 12 | sed 's/^/    | /' || true
    fi
}

# Each program's expectations go to a folder of its own, numbered in their order.
count=0
for list in "$@"; do
    while IFS= read -r line || [ -n "$line" ]; do
        read -r -a words <<<"${line%%#*}"
        [ ${#words[@]} -gt 0 ] || continue
        case ${words[0]} in
        pass | timed | skip | lack | may | fail | night | out)
            result=${words[0]} text=''
            case $result:$line in
            pass:* | *\#?*) ;;
            *) echo "    WRONG $list: no reason given: $line"; bad=$((bad + 1)) ;;
            esac
            case $result in skip | lack | may) text=${line#*\# } text=${text%%: *} ;; esac
            [ "$result:${ZERANGE_NIGHTLY:+1}" != night:1 ] || result=pass
            for name in "${words[@]:1}"; do echo "$result $name $text" >>"$work/$count/expect"; done
            ;;
        *)
            count=$((count + 1))
            mkdir "$work/$count"
            echo "${words[*]}" >"$work/$count/what"
            ;;
        esac
    done <"$list"
done
running=0
for ((i = 1; i <= count; i++)); do
    [ "$running" -lt 2 ] || { wait -n || true; running=$((running - 1)); }
    # shellcheck disable=SC2046
    run_program "$work/$i" $(cat "$work/$i/what") >"$work/$i/said" 2>&1 &
    running=$((running + 1))
done
wait
for ((i = 1; i <= count; i++)); do
    cat "$work/$i/said"
    read -r -a sums <"$work/$i/sums"
    ran=$((ran + sums[0])) passed=$((passed + sums[1])) bad=$((bad + sums[2]))
    skips=$((skips + sums[3])) nights=$((nights + sums[4]))
done
echo "$passed of $ran subtests pass ($((ran > 0 ? passed * 100 / ran : 0)) of 100); $skips more are" \
    "skipped for the hardware, $nights run at night; $bad surprises"
if [ "$passed" -eq 0 ] || [ $((passed * 100)) -lt $((ran * 90)) ]; then
    echo "fewer than 90 of 100 pass"
    exit 1
fi
[ "$bad" -eq 0 ]
