#!/usr/bin/env bash
# NVIDIA/nccl 1820: a collective on a buffer of several objects saw only the first. Broadcasts and a
# ring of three ranks over six objects each, on our driver, on one without the range extension, and on
# one with Intel's faults.
# SPDX-License-Identifier: BSD-3-Clause
. "${srcdir:?set by make check}/tests/mpi/lib.sh"

for driver in "none none" "range none" "all none" "none intel" "functions intel"; do
    export ZERANGE_HIDE=${driver% *} ZERANGE_QUIRKS=${driver#* }
    status=0
    ranks 3 "$builddir/tests/ucx/bug_collective" >"$work/out" 2>&1 || status=$?
    if [ $status -eq 0 ]; then
        echo "ok: ZERANGE_HIDE=$ZERANGE_HIDE ZERANGE_QUIRKS=$ZERANGE_QUIRKS"
    else
        bad "ZERANGE_HIDE=$ZERANGE_HIDE ZERANGE_QUIRKS=$ZERANGE_QUIRKS: exit $status"
        cat "$work/out"
    fi
done
finish
