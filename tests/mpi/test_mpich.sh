#!/usr/bin/env bash
# MPICH over device memory: Debian's build has Level Zero (its start requires it of the driver, its
# collectives copy with it) and sends through UCX, where our transport serves. Every byte is
# checked, with its GPU support on and off, and the lane is read from UCX.
. "${srcdir:?set by make check}/tests/mpi/lib.sh"

for tool in mpicc.mpich mpiexec.mpich mpichversion; do
    command -v $tool >/dev/null || { echo "SKIP: MPICH is not installed: no $tool"; exit 77; }
done
echo "case: MPICH $(mpichversion 2>/dev/null | sed -n 's/^MPICH \(Version\|Device\): *//p' |
    paste -sd' ')"

build() { # SOURCE PROGRAM
    mpicc.mpich -std=gnu11 -D_GNU_SOURCE -O1 -I"$srcdir/include" -I"$srcdir/tests/mpi" \
        -o "$work/$2" "$srcdir/$1" -lze_loader >"$work/out" 2>&1 || {
        bad "$1 does not build with MPICH"
        cat "$work/out"
        finish
    }
}
mpich() { # N PROGRAM ARGS...
    local n=$1
    shift
    timeout -k 5 100 mpiexec.mpich -n "$n" "$work/$1" "${@:2}" </dev/null
}
build tests/mpi/nodes.c nodes
library=$(ldd "$work/nodes" | sed -n 's/.*=> \(.*libmpich[^ ]*\).*/\1/p')
needs=$(ldd "$library")
[[ $needs == *libze_loader* ]] || bad "$library does not know Level Zero"
[[ $needs == *libucp* ]] || bad "$library does not know UCX"

# Its GPU support off: buffers go to UCX as they are, and nothing else may touch them. On: the same,
# and reductions over device memory.
while read -r gpu ranks words; do
    export MPIR_CVAR_ENABLE_GPU=$gpu UCX_PROTO_INFO=y UCX_LOG_FILE=$work/ucx-%p.log
    rm -f "$work"/ucx-*
    # shellcheck disable=SC2086
    mpich "$ranks" nodes 1 "$ranks" $words >"$work/out" 2>&1 ||
        { bad "GPU support $gpu, $ranks ranks: exit $?"; cat "$work/out"; }
    grep -q ' 0 wrong$' "$work/out" || bad "GPU support $gpu: ${words:-no words}: bytes"
    lane=$(cat "$work"/ucx-*.log | awk -v where=intra-node -f "$srcdir/benchmarks/lane.awk")
    if [[ $words == *device* ]]; then
        [[ $lane != *$'\n'* && $lane == "lane: ze_range (rendezvous zero-copy "* ]] ||
            bad "GPU support $gpu: ${lane:-no lane found}"
        echo "case: GPU support $gpu, $lane"
    fi
    sed -n "s/^case: 1 hosts of/case: GPU support $gpu,/p" "$work/out"
done <<'TABLE'
1 2 device
1 4 only allreduce
0 2 device
TABLE
unset UCX_PROTO_INFO UCX_LOG_FILE

# Collectives. Those that copy within a rank do it with yaksa, whose Level Zero part Debian's build
# lacks; it is then the CPU that touches device memory, and the rank ends by a signal.
export MPIR_CVAR_ENABLE_GPU=1
while read -r name must; do
    status=0
    mpich 2 nodes 1 2 only "$name" >"$work/out" 2>&1 || status=$?
    if [ $status -eq 0 ] && grep -q ' 1 collectives, 0 wrong$' "$work/out"; then
        echo "case: $name: right"
    elif [ "$must" = may ] && ! grep -q yaksuri_zei_ "$library" &&
        grep -q 'signal 11' "$work/out"; then
        echo "case: $name: not with this MPICH: it copies device memory by CPU"
    else
        bad "$name: exit $status"
        cat "$work/out"
    fi
done <<'TABLE'
bcast must
allgather may
alltoall may
gather may
scatter may
allreduce must
reduce_scatter_block may
scan may
TABLE

# What this build of it does not have. Derived types are packed by yaksa, whose Level Zero part this
# build lacks, and are then read by the CPU.
if grep -q yaksuri_zei_ "$library"; then
    build examples/halo3d.c halo3d
    mpich 2 halo3d 40 2 >"$work/out" 2>&1 && grep -q 'Pass, 0 cells' "$work/out" ||
        { bad "halo3d"; cat "$work/out"; }
else
    echo "case: derived types in device memory: not with this MPICH: its yaksa has no Level Zero"
fi
if bash "$srcdir/benchmarks/mpich.sh" 1 zr_bw -m 4096:8192 -i 2 -x 0 >"$work/out" 2>&1 </dev/null &&
    [ "$(grep -c '^ *[0-9][0-9]* .*[0-9]\.[0-9]' "$work/out")" -eq 2 ]; then
    echo "case: the comparison with Open MPI runs"
else
    bad "benchmarks/mpich.sh"
    cat "$work/out"
fi
grep -q MPIDI_GPU_ "$library" ||
    echo "case: handles of its own between ranks: not in this MPICH, UCX has all of its messages"
finish
