#!/usr/bin/env bash
# mpirun.sh [OPTIONS OF MPIRUN] PROGRAM [ARGS]: every mpirun of this project is started here.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Unbound, since the threads of the software engines inherit the binding of their rank.
exec mpirun --mca pml ucx --mca opal_common_ucx_tls any --mca opal_common_ucx_devices any \
    --bind-to none --map-by :OVERSUBSCRIBE "$@"
