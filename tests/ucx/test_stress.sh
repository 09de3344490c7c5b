#!/usr/bin/env bash
# pmodels/mpich 7302 (a CRC mismatch that came with reallocation, gone without IPC), and the kind: three
# ranks change their buffers at random while they are sent. A minute here; ten minutes with each of
# three seeds in the nightly form.
# SPDX-License-Identifier: BSD-3-Clause
. "${srcdir:?set by make check}/tests/mpi/lib.sh"

# stress SEED SECONDS [VAR=VALUE]
stress() {
    local seed=$1 seconds=$2
    shift 2
    if env "$@" timeout -k 5 $((seconds + 90)) bash "$srcdir/tests/mpirun.sh" -np 3 \
        "$builddir/tests/ucx/stress" "$seed" "$seconds" </dev/null >"$work/out" 2>&1
    then
        echo "ok: $* $(cat "$work/out")"
    else
        bad "stress $seed $seconds $*: exit $?"
        tail -n 30 "$work/out"
    fi
}

if [ -n "${ZERANGE_NIGHTLY:-}" ]; then
    for seed in 1 2 3; do
        stress $seed 600 ZERANGE_HIDE=none
    done
    stress 4 300 ZERANGE_HIDE=all
    stress 5 300 UCX_ZE_RANGE_CACHE_MAX_REGIONS=3
else
    stress $((RANDOM + 1)) 35 ZERANGE_HIDE=none
    stress $((RANDOM + 1)) 15 ZERANGE_HIDE=all
    stress $((RANDOM + 1)) 10 UCX_ZE_RANGE_CACHE_MAX_REGIONS=3
fi
finish
