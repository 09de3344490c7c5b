#!/usr/bin/env bash
# NVIDIA/nccl 1820: a collective on a buffer of several objects saw only the first. Broadcasts and a
# ring of three ranks over six objects each.
# SPDX-License-Identifier: BSD-3-Clause
. "${srcdir:?set by make check}/tests/mpi/lib.sh"

for hide in none all; do
    export ZERANGE_HIDE=$hide
    if ranks 3 -x ZERANGE_HIDE "$builddir/tests/ucx/bug_collective" >"$work/out" 2>&1; then
        echo "ok: ZERANGE_HIDE=$hide"
    else
        bad "collectives with ZERANGE_HIDE=$hide: exit $?"
        cat "$work/out"
    fi
done
finish
