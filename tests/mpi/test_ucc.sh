#!/usr/bin/env bash
# Reductions over device memory through UCC: our component copies to the host, Open MPI's coll/ucc
# below it reduces, what UCC traced says that it did and that no device memory came to it. All that
# only moves data goes past UCC, which knows no Level Zero memory (docs/mpi.md).
. "${srcdir:?set by make check}/tests/mpi/lib.sh"

ompi_info --param coll ucc --level 9 2>/dev/null | grep 'coll_ucc_enable' >/dev/null ||
    { echo "SKIP: this Open MPI has no coll/ucc"; exit 77; }
export ZR_TEST_COMPONENTS=$builddir/.libs UCC_COLL_TRACE=info
reductions=allreduce,iallreduce,reduce,ireduce,reduce_scatter,ireduce_scatter
reductions+=,reduce_scatter_block,ireduce_scatter_block
# Long ones would go our own way among the processes of a node, past UCC.
ucc=(--mca coll_zerange_direct_bytes 0 --mca coll_ucc_enable 1 --mca coll_ucc_priority 77
    --mca coll_ucc_cts "barrier,$reductions")

for n in 2 4; do
    ranks $n "${ucc[@]}" "$builddir/tests/mpi/nodes" 1 $n reduce >"$work/out" 2>&1 ||
        bad "$n ranks: exit $?"
    grep -q '^case: .* 8 collectives, 0 wrong$' "$work/out" || bad "$n ranks: bytes"
    for name in Allreduce Reduce_scatter; do
        grep -q "coll_init: $name.*Host" "$work/out" || bad "$n ranks: UCC had no $name"
    done
    # 30001 elements are the test's; a data mover of them would be one of device memory.
    ! grep -E 'coll_init: (Bcast|Allgather|Alltoall|Gather|Scatter).* 30001,' "$work/out" ||
        bad "$n ranks: UCC was given device memory"
    [ $failures -eq 0 ] || cat "$work/out"
    sed -n 's/^case: 1 hosts of \(.*\): .*, \(8 coll.*\)/case: \1: \2/p' "$work/out"
    grep -o 'coll_init: [A-Z][a-z_]* ' "$work/out" | sort | uniq -c |
        sed "s/^ *\([0-9]*\) coll_init: \(.*\) /case: $n ranks: UCC: \1 x \2/"
done
finish
