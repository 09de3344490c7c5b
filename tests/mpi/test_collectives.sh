#!/usr/bin/env bash
# Every collective over device memory gives the bytes of the same call on host memory; the report is
# the matrix of what was compared: collective x types x placement, for each number of ranks.
. "${srcdir:?set by make check}/tests/mpi/lib.sh"
export ZR_TEST_COMPONENTS=$builddir/.libs

# matrix TITLE RANKS ARGS...: run, and print its cells as a table.
matrix() {
    local title=$1 n=$2 status=0
    shift 2
    timeout -k 5 1800 bash "$srcdir/tests/mpirun.sh" -np "$n" "$@" </dev/null >"$work/out" \
        2>"$work/err" || status=$?
    grep -v '^cell: \|^total: ' "$work/out"
    if [ $status -ne 0 ] || ! grep -q '^total: ' "$work/out"; then
        bad "$title: exit $status"
        cat "$work/err"
    fi
    awk -v title="$title" '
        function cell(c, p,   text, k) {
            text = ""
            for (k = 1; k <= length(letters); k++)
                if ((c, substr(letters, k, 1), p) in n) text = text substr(letters, k, 1)
            return text == "" ? "-" : text " " sum[c, p]
        }
        BEGIN { letters = "idfnbzlpvxsa" }
        $1 == "cell:" {
            if (!($2 in seen)) { seen[$2] = 1; order[++count] = $2 }
            n[$2, $3, $4] += $5; sum[$2, $4] += $5
        }
        $1 == "total:" { total = substr($0, 8) }
        END {
            if (count == 0) exit
            printf "case: %-22s%-20s%-20s%s\n", title, "D->D", "D->H", "H->D"
            for (k = 1; k <= count; k++) {
                c = order[k]
                printf "case: %-22s%-20s%-20s%s\n", c, cell(c, "D->D"), cell(c, "D->H"), cell(c, "H->D")
            }
            print "case: " total
        }' "$work/out"
}

echo 'case: types: i int d double f float n other numbers b byte z complex l logical p pairs' \
    'v vector x indexed s struct a subarray; then the number of calls compared'
for n in 2 3 ${ZERANGE_NIGHTLY:+4 8}; do
    matrix "$n ranks" "$n" "$builddir/tests/mpi/collectives" ${ZERANGE_NIGHTLY:+all}
done
# Short messages too, the way of long ones among the processes of a node; those in many pieces.
for n in 3 ${ZERANGE_NIGHTLY:+2 4 8}; do
    matrix "$n ranks, directly" "$n" --mca coll_zerange_direct_bytes 1 \
        --mca coll_zerange_direct_piece 8192 --mca coll_zerange_verbose 1 "$builddir/tests/mpi/collectives" ${ZERANGE_NIGHTLY:+all} allgather allreduce alltoall \
        reduce reduce_scatter reduce_scatter_block
    [ "$(grep -c 'go from buffer to buffer' "$work/err")" -ge "$n" ] ||
        { bad "$n ranks: not directly"; cat "$work/err"; }
done
finish
