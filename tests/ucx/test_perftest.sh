#!/usr/bin/env bash
# ucx_info lists ze_range, and ucx_perftest between two processes passes on device memory.
. "${srcdir:?set by make check}/tests/mpi/lib.sh"

ucx_info -d >"$work/info" 2>&1 || bad "ucx_info -d: exit $?"
grep -q 'Transport: ze_range' "$work/info" || {
    bad "ucx_info -d has no ze_range"
    cat "$work/info"
}

listening() { grep -qiE ":$(printf '%04X' "$1") [0-9A-F]*:0000 0A" /proc/net/tcp /proc/net/tcp6; }

# An older UCX has no module for device memory; one built with MPI would start without a peer.
options=()
export LD_PRELOAD=$builddir/.libs/perftest_ze.so${LD_PRELOAD:+:$LD_PRELOAD}
! ldd "$(command -v ucx_perftest)" | grep -q libmpi || options=(-P 0)

# perf TEST SIZE: a server and a client over loopback, memory of $PERFTEST_OBJECTS objects.
perf() {
    local port=$((20000 + RANDOM % 20000)) server status=0 what
    what="$1 -m ze-device -s $2 of ${PERFTEST_OBJECTS:-0} objects"
    timeout -k 5 60 ucx_perftest "${options[@]}" -p $port >"$work/server" 2>&1 &
    server=$!
    while kill -0 $server 2>/dev/null && ! listening $port; do
        read -rt 0.05 <> <(:)
    done
    timeout -k 5 60 ucx_perftest 127.0.0.1 "${options[@]}" -p $port -t "$1" -m ze-device \
        -s "$2" -n 10 -w 2 >"$work/client" 2>&1 || status=$?
    wait $server || status=$?
    if [ $status -ne 0 ] || ! grep -q '^Final:' "$work/client"; then
        bad "ucx_perftest -t $what: exit $status"
        cat "$work/server" "$work/client"
    elif [ "${PERFTEST_OBJECTS:-0}" -gt 0 ] &&
        ! grep -q "are $PERFTEST_OBJECTS objects" "$work/client" "$work/server"; then
        bad "ucx_perftest -t $what: its memory was no range"
        cat "$work/server" "$work/client"
    else
        printf 'ok: %s: %s\n' "$what" "$(grep '^Final:' "$work/client")"
    fi
}
for PERFTEST_OBJECTS in 0 64; do
    export PERFTEST_OBJECTS
    # UCX's hooks of Level Zero leave out who is preloaded; our own ze_copy calls it.
    [ "$PERFTEST_OBJECTS" -eq 0 ] || export UCX_MODULES=^ze
    for name in tag_bw tag_lat ucp_put_bw ucp_put_lat ucp_get stream_bw stream_lat ucp_am_bw \
        ucp_am_lat; do
        [ "$PERFTEST_OBJECTS" -gt 0 ] || perf $name 8
        perf $name 4194304
    done
done
finish
