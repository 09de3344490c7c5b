#!/usr/bin/env bash
# A long copy is shared by every copy engine the device has; --engines-report counts them.
. "${srcdir:?set by make check}/tests/mpi/lib.sh"

while read -r profile engines; do
    export ZERANGE_SOFT=$profile
    passes "$profile" 1 zr_bw D D --objects 8 -m 16777216:16777216 -c -i 2 -x 0 -u 0 -W 2 \
        --engines-report
    line=$(grep '^# copies shared' "$work/out")
    [ "$line" = "# copies shared by $engines" ] ||
        bad "$profile: '$line', expected '# copies shared by $engines'"
done <<'END'
pvc 9 engines
dg2 1 engine
END
finish
