#!/usr/bin/env bash
# A UCX whose tables are not known, or not as they should be, gets nothing registered and one line
# that says why and what may be tried; loaded twice from two files, the plugin registers once.
# SPDX-License-Identifier: BSD-3-Clause
set -u

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
unset LD_PRELOAD UCX_PLUGIN_PATH
plugin=${builddir:?}/.libs/libuct_zerange.so.0
cp "$builddir/.libs/fake_uct.so" "$work/libuct.so.0"
cp "$builddir/.libs/fake_uct.so" "$work/libucp.so.0"
cp "$plugin" "$work/second.so.0"
failed=0

# expect NAME REGISTERED LINES PATTERN [VAR=VALUE...]: with LINES lines of log, one having PATTERN.
expect() {
    local name=$1 registered=$2 lines=$3 pattern=$4 status
    shift 4
    env LD_LIBRARY_PATH="$work" "$@" "$builddir/tests/ucx/plugin_host" "$plugin" \
        "$work/second.so.0" >"$work/out" 2>&1
    status=$?
    if [ $status -eq 0 ] && grep -qx "registered: $registered" "$work/out" &&
        [ "$(grep -vc '^registered: ' "$work/out")" -eq "$lines" ] &&
        grep -q -- "$pattern" "$work/out"; then
        echo "ok: $name"
    else
        echo "not ok: $name: exit $status, wanted $registered and \"$pattern\""
        sed 's/^/    /' "$work/out"
        failed=1
    fi
}

# Both copies of the plugin say it, each once.
expect "UCX 1.23, two files" 1 0 "registered" FAKE_MINOR=23
expect "no libucp" 1 0 "registered"
expect "built with statistics" 0 2 "built with statistics (--enable-stats)" FAKE_UCT=stats
expect "self is elsewhere" 0 2 "component \"self\" is not where it should be" FAKE_UCT=self
expect "a transport is elsewhere" 0 2 "transport's functions are not where" FAKE_UCT=transport
expect "a slot differs" 0 2 \
    "uct_md_mem_dereg_v2 calls slot 7, the layout of UCX 1.23 has slot 6; no ZERANGE_UCX_ABI" \
    FAKE_UCT=slot FAKE_MINOR=23
expect "a newer UCX" 0 2 \
    "UCX 1.24 has no layout here, known are UCX 1.18 to 1.23; ZERANGE_UCX_ABI=1.23 fits and may" \
    FAKE_MINOR=24
expect "a newer UCX, tried" 1 0 "registered" FAKE_MINOR=24 ZERANGE_UCX_ABI=1.23
expect "a newer UCX, tried with a layout that does not fit" 0 2 "the layout of UCX 1.21 has" \
    FAKE_MINOR=24 ZERANGE_UCX_ABI=1.21
expect "no such layout" 0 2 "ZERANGE_UCX_ABI=1.17 is not valid, allowed: 1.18 to 1.23" \
    FAKE_MINOR=23 ZERANGE_UCX_ABI=1.17
exit $failed
