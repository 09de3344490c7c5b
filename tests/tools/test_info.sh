#!/usr/bin/env bash
# zerange-info: with a device and without, with the transport where UCX finds it and where not, with a
# wrong variable. The counters of processes are test_range_counters's.
# SPDX-License-Identifier: BSD-3-Clause
set -u
: "${srcdir:?set by make check}" "${builddir:?set by make check}"
out=$(mktemp)
trap 'rm -f "$out"' EXIT
failed=0

# expect NAME STATUS PATTERN ARGS [VAR=VALUE...]: exit status and a line of the output.
expect() {
    local name=$1 want=$2 pattern=$3 args=$4 status
    shift 4
    # shellcheck disable=SC2086
    env "$@" timeout 60 "$builddir/zerange-info" $args >"$out" 2>&1
    status=$?
    if [ "$status" -ne "$want" ] || ! grep -qE -- "$pattern" "$out"; then
        echo "not ok: $name: exit $status, expected $want and \"$pattern\""
        sed 's/^/    /' "$out"
        failed=1
    else
        echo "ok: $name"
    fi
}

expect "our driver and its device" 0 'driver 0 +zerange, version' --level-zero
expect "the range extension" 0 'ZE_extension_ipc_phys_mem_handle_range 1\.0' --level-zero
expect "engines of the profile" 0 'copy engines +[0-9]+' --level-zero
# From the loader's name to the first driver: a line per component, each with a version.
expect "the loader's parts" 0 '^  loader +[1-9][0-9]*\.[0-9]+\.[0-9]+$' --level-zero
if sed -n '/^Level Zero/,/driver 0/p' "$out" | sed '1d;$d' |
    grep -vE '^  [a-z ]+ +[0-9]+\.[0-9]+\.[0-9]+$'; then
    echo "not ok: a part of the loader without name or version"
    failed=1
fi
expect "two devices" 0 'device 1 ' --level-zero ZERANGE_SOFT=pvc,dg2
expect "another driver" 0 'driver 0 +another' --level-zero ZERANGE_HIDE=all
expect "no device" 1 'devices +none' --level-zero ZE_ENABLE_ALT_DRIVERS=/nowhere/libze.so
expect "the transport registers" 0 'registers +yes' --ucx
expect "UCX's version" 0 'UCX +1\.[0-9]+\.[0-9]+' --ucx
expect "the transport is nowhere" 0 'plugin +none' --ucx UCX_PLUGIN_PATH=/nowhere LD_PRELOAD=
# Others of this machine are seen too, but not from another network namespace.
if unshare --net true 2>/dev/null; then
    unshare --net "$builddir/zerange-info" --processes >"$out" 2>&1
    if [ $? -ne 1 ] || ! grep -qE 'processes +none' "$out"; then
        echo "not ok: no process"
        failed=1
    fi
fi
# What another user answers under a name of ours is not shown.
if [ "$(id -u)" -eq 0 ] && unshare --net true 2>/dev/null; then
    cat >"$out.py" <<'END'
import os, socket, subprocess, sys
here = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
pid = os.fork()
if pid == 0:
    os.setgid(65534)
    os.setuid(65534)
    here.bind(b"\0zerange-ucx-0-1")
    here.listen(8)
    os.kill(os.getpid(), 19)  # SIGSTOP: the parent sees that it listens, and has it go on
    while True:
        peer = here.accept()[0]
        asked = peer.recv(4096)
        if asked:
            peer.send(asked[:8] + bytes(8192))
os.waitpid(pid, os.WUNTRACED)
os.kill(pid, 18)
status = subprocess.call([sys.argv[1] + "/zerange-info", "--processes"])
os.kill(pid, 9)
sys.exit(status)
END
    unshare --net python3 "$out.py" "$builddir" >"$out" 2>&1
    if [ $? -ne 1 ] || ! grep -qE 'processes +none' "$out"; then
        echo "not ok: another user's process"
        sed 's/^/    /' "$out"
        failed=1
    fi
    rm -f "$out.py"
fi
expect "what is set and allowed" 0 'ZERANGE_QUIRKS +intel +none, intel' --environment \
    ZERANGE_QUIRKS=intel
expect "a wrong value" 0 'a value is not valid' --environment ZERANGE_LOG=loud
expect "a wrong option" 2 '^usage' --nothing
expect "all of it" 0 '^Environment' ''
exit $failed
