#!/usr/bin/env bash
# mpirun.sh [OPTIONS OF MPIRUN] PROGRAM [ARGS]: every mpirun of this project is started here.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# The components of this build, for what stock Open MPI cannot do with device memory. Not through the
# environment: Open MPI 5 hands that to PMIx, which complains of every file.
components=(--mca osc ucx)
if [ -n "${ZR_TEST_COMPONENTS:-}" ]; then
    components=(--mca osc ucx,zerange --omca mca_base_component_path "$ZR_TEST_COMPONENTS")
fi
# Unbound, since the threads of the software engines inherit the binding of their rank.
exec mpirun --mca pml ucx --mca opal_common_ucx_tls any --mca opal_common_ucx_devices any \
    --bind-to none --map-by :OVERSUBSCRIBE "${components[@]}" "$@"
