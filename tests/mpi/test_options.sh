#!/usr/bin/env bash
# A bad command line is refused with one line that names option, value and what is allowed; all
# ranks end with status 2. A device that is not there is named too.
. "${srcdir:?set by make check}/tests/mpi/lib.sh"

while IFS='|' read -r args line; do
    status=0
    # shellcheck disable=SC2086
    ranks 2 $args >"$work/out" 2>&1 || status=$?
    said=$(grep -c '^zr_' "$work/out")
    if [ "$status" -ne 2 ] || [ "$said" -ne 1 ] || ! grep -qxF -- "$line" "$work/out"; then
        bad "$args: exit $status, expected 2 and: $line"
        cat "$work/out"
    fi
done <<'END'
zr_bw -i 0|zr_bw: option -i has the value '0': allowed: 1 to 1000000000
zr_bw -m 8:4|zr_bw: option -m has the value '8:4': allowed: [MIN:]MAX with 1 <= MIN <= MAX <= 1G bytes
zr_bw -b some|zr_bw: option -b has the value 'some': allowed: single, multiple
zr_bw --objects 1x|zr_bw: option --objects has the value '1x': allowed: 0 to 65536
zr_bw --split 3|zr_bw: option --split has the value '3': allowed: A:B with A and B from 1 to 65536
zr_bw --offset 65536|zr_bw: option --offset has the value '65536': allowed: 0 to 65535 bytes
zr_bw --colour|zr_bw: option '--colour' is not known: -h lists those that are
zr_bw -m|zr_bw: option -m needs a value
zr_bw D X|zr_bw: placement 'X' is not valid: allowed are D (device) and H (host)
zr_bw D|zr_bw: placement has 1 words: allowed are D D, D H, H D, H H
zr_allreduce -m 6:8|zr_allreduce: option -m has the value '6:8': allowed: [MIN:]MAX with 4 <= MIN <= MAX <= 1G bytes, MIN a multiple of 4
zr_allreduce --offset 6|zr_allreduce: option --offset has the value '6': allowed: 0 to 65535 bytes, a multiple of 4
zr_bcast -p 1|zr_bcast: option -p is not known: -h lists those that are
zr_latency -W 4|zr_latency: option -W is not known: -h lists those that are
END

status=0
ZE_ENABLE_ALT_DRIVERS=$work/none.so ranks 2 zr_bw D D >"$work/out" 2>&1 || status=$?
if [ "$status" -ne 1 ] || ! grep -q '^zr_bw: rank [01]: no Level Zero GPU device' "$work/out"; then
    bad "no device: exit $status"
    cat "$work/out"
fi
status=0
ranks 1 zr_bw H H >"$work/out" 2>&1 || status=$?
if [ "$status" -ne 1 ] || ! grep -q '^zr_bw: needs 2 ranks and has 1' "$work/out"; then
    bad "one rank: exit $status"
    cat "$work/out"
fi
finish
