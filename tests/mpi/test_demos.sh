#!/usr/bin/env bash
# ./run demo halo3d and ./run demo expandable: every byte right and by ze_range, exit 0; without
# ze_range the bytes are right still and the exit is 1.
. "${srcdir:?set by make check}/tests/mpi/lib.sh"

# demo STATUS WORDS...: its output in $work/out.
demo() {
    local want=$1 status=0
    shift
    timeout -k 5 120 bash "$srcdir/benchmarks/demo.sh" "$@" >"$work/out" 2>&1 </dev/null ||
        status=$?
    [ $status -eq "$want" ] || bad "demo $*: exit $status, expected $want"
}
# says COUNT PATTERN
says() { [ "$(grep -cE "$2" "$work/out")" -eq "$1" ] || bad "not $1 times: $2"; }

while IFS='|' read -r status words lines; do
    before=$failures
    # shellcheck disable=SC2086
    demo "$status" $words
    for line in $lines; do
        says "${line%%:*}" "${line#*:}"
    done
    if [ $failures -ne "$before" ]; then
        cat "$work/out"
    else
        echo "case: demo $words: exit $status, as expected"
    fi
done <<'END'
0|halo3d|1:^halo3d.inplace:.2.x.2.x.1.*Pass,.0 1:^halo3d.pack:.*Pass,.0 1:^lane:.packed.into.host.memory 1:^lane:.ze_range.\(rendezvous.zero-copy 1:^Pass$
0|expandable|12:^step 1:^Pass:.0.wrong 1:^lane:.ze_range.\(rendezvous.zero-copy
1|halo3d --without ze_range|2:^halo3d.*Pass,.0 0:^Pass$ 1:^demo:.the.lane.is.not.ze_range
2|halo3d --fast|1:^demo:.argument..--fast..is.not.known
END
finish
