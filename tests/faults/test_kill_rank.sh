#!/usr/bin/env bash
# A rank killed in the middle of a transfer leaves nothing behind: files, sockets and processes are
# those from before, and the next run passes.
: "${srcdir:?set by make check}" "${builddir:?set by make check}"

# Files, sockets and processes of its own: what other programs do at the same time is not in the
# lists that are compared. In a chroot the root is no mount and cannot be made private.
for propagation in private unchanged; do
    own=(unshare --mount --propagation "$propagation" --net --ipc --pid --fork --mount-proc)
    if [ -z "${ZR_KILL_PRIVATE:-}" ] && "${own[@]}" true 2>/dev/null; then
        export ZR_KILL_PRIVATE=1
        exec "${own[@]}" bash "$0" "$@"
    fi
done
if [ -n "${ZR_KILL_PRIVATE:-}" ]; then
    set -e
    mount -t tmpfs -o mode=1777 tmpfs /mnt
    for dir in "$builddir" "$srcdir"; do
        [ "${dir#/tmp/}" != "$dir" ] || continue
        mkdir -p "/mnt/${dir#/tmp/}"
        mount --bind "$dir" "/mnt/${dir#/tmp/}"
    done
    mount --rbind /mnt /tmp
    mount -t tmpfs -o size=4g,mode=1777 tmpfs /dev/shm
    ip link set lo up
    set +e
else
    export TMPDIR=$builddir/tests/faults/tmp
    mkdir -p "$TMPDIR"
fi
. "$srcdir/tests/mpi/lib.sh"
export ZR_KILL_TEST=$work # marks the ranks of this test

things() {
    find /dev/shm "${TMPDIR:-/tmp}" -xdev -mindepth 1 -not -path "$work*"
    awk 'NR > 1 && $8 != "" { print "socket", $8 }' /proc/net/unix
    ps -eo comm= | grep -e '^zr_' -e '^prte' -e '^mpirun'
}

# case_line NAME OUTCOME: passed if nothing failed since the last one.
failures_told=0
case_line() {
    if [ "$failures" -eq "$failures_told" ]; then
        echo "case: $1: passed: $2"
    else
        echo "case: $1: FAILED"
    fi
    failures_told=$failures
}

# kill_rank NUMBER: end that rank when the table shows that the 1 MiB messages are through.
kill_rank() {
    local victim=$1 job status=0 line pid killed=
    things | sort >"$work/before"
    mkfifo "$work/pipe"
    timeout -k 5 120 bash "$srcdir/tests/mpirun.sh" -np 2 zr_bw D D --objects 8 \
        -m 1048576:67108864 -i 200 -x 0 >"$work/pipe" 2>"$work/err" &
    job=$!
    while read -r line; do
        case $line in
        1048576*)
            for pid in $(pgrep -x zr_bw); do
                if grep -qzx "OMPI_COMM_WORLD_RANK=$victim" "/proc/$pid/environ" &&
                    grep -qzx "ZR_KILL_TEST=$work" "/proc/$pid/environ"; then
                    kill -KILL "$pid" && killed=$pid
                fi
            done ;;
        esac
    done <"$work/pipe"
    wait $job || status=$?
    rm "$work/pipe"
    [ -n "$killed" ] || bad "rank $victim was not found"
    [ $status -ne 0 ] && [ $status -ne 124 ] || bad "mpirun ended with $status"
    things | sort >"$work/after"
    if ! diff "$work/before" "$work/after" >"$work/diff"; then
        bad "rank $victim killed: left behind or gone:"
        cat "$work/diff" "$work/err"
    fi
    case_line "MPI rank $victim killed in mid-transfer" "nothing left behind"
    passes "the run after rank $victim was killed" 1 zr_bw D D --objects 8 -m 1048576:1048576 -c \
        -i 2 -x 0 -u 0
    case_line "MPI run after rank $victim was killed" "every byte right"
}

kill_rank 0
kill_rank 1
finish
