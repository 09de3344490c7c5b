#!/usr/bin/env bash
# Memory that is not there is an error of MPI that names it, never a signal.
. "${srcdir:?set by make check}/tests/mpi/lib.sh"
export ZR_TEST_COMPONENTS=$builddir/.libs
ranks 2 "$builddir/tests/mpi/bad_input" 2>"$work/err" || bad "bad_input"
# A window that cannot be made is MPI_ERR_WIN, whose text is MPI's; ours is in the log.
# mpirun may cut the line of one rank for one of the other.
named=$(grep -ao 'zerange: MPI_Win_create: 196608 bytes at 0x' "$work/err" | wc -l)
told=$(grep -ao 'zerange: the window of rank 0 cannot be made: 196608 bytes at 0x' "$work/err" | wc -l)
if [ "$named" -ne 7 ] || [ "$told" -ne 7 ]; then
    bad "MPI_Win_create named the memory $named times, the other rank was told $told times"
    cat "$work/err"
fi

# With the handler that MPI starts with the job ends by MPI's own abort, and says which memory.
status=0
ranks 2 "$builddir/tests/mpi/bad_input" fatal >"$work/out" 2>&1 || status=$?
if [ "$status" -eq 0 ] || ! grep -aq 'MPI_ERRORS_ARE_FATAL' "$work/out" ||
    ! grep -aq 'the device memory 0x.* was freed or unmapped' "$work/out" ||
    grep -aq 'received signal\|Segmentation' "$work/out"; then
    bad "a freed range, default error handler: exit $status"
    cat "$work/out"
else
    echo "ok: default error handler: $(grep -ao 'send: .*' "$work/out" | head -n 1)"
fi
finish
