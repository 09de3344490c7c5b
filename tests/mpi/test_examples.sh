#!/usr/bin/env bash
# The examples at sizes that their demonstrations do not have; a wrong argument ends all ranks.
. "${srcdir:?set by make check}/tests/mpi/lib.sh"
export ZR_TEST_COMPONENTS=$builddir/.libs
while IFS='|' read -r n want words; do
    # shellcheck disable=SC2086
    ranks "$n" $words >"$work/out" 2>&1
    grep -q "$want" "$work/out" && echo "case: $words, $n ranks" || { bad "$words"; cat "$work/out"; }
done <<END
3|^Pass: 0 wrong words|$builddir/examples/expandable 6 300000
4|Pass, 0 cells differ|$builddir/examples/halo3d 40 3
2|Pass, 0 cells differ|$builddir/examples/halo3d 33 2 pack
2|^halo3d: 1 to 1000 cells|$builddir/examples/halo3d 33 2 fast
END
finish
