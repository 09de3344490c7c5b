#!/usr/bin/env bash
# Every benchmark beside zr_bw and zr_latency: every byte checked, CSV and JSON that can be read,
# several pairs, and a wrong option named.
. "${srcdir:?set by make check}/tests/mpi/lib.sh"

while read -r program sizes options; do
    # shellcheck disable=SC2086
    passes "$program" "$sizes" "$program" D D --objects 8 -c -i 2 -x 0 -u 1 $options
done <<'END'
zr_bibw 3 -m 65536:262144 -W 4
zr_bibw 2 -m 8:16 -W 4 --fit
zr_put_bw 3 -m 65536:262144 -W 4
zr_get_bw 3 -m 65536:262144 -W 4 --unequal
zr_put_latency 2 -m 8:16
zr_get_latency 2 -m 1M:2M --fit
zr_mbw_mr 2 -m 65536:131072 -W 4 --volume 1M
END

# The collectives: every block from every rank, sums exact, nothing beside the buffers changed.
ZR_TEST_COMPONENTS=$builddir/.libs
export ZR_TEST_COMPONENTS
while read -r np sizes words; do
    # shellcheck disable=SC2086
    passes "$words, $np ranks" "$sizes" $words -c -i 2 -x 0 -u 1
done <<'END'
2 4 zr_allreduce D D --objects 8 -m 4:32 --fit
3 3 zr_allreduce D H --split 5:2 --unequal --map-offset --offset 4 -m 65536:262144
3 2 zr_allreduce H D -m 512K:1M
2 1 zr_allreduce D D --objects 8 -m 8M:8M
3 3 zr_bcast D D --objects 8 -m 65536:262144
2 2 zr_bcast H D --objects 3 -m 1:2 --fit
3 3 zr_allgather D D --split 1:33 --offset 77 -m 65536:262144
2 2 zr_allgather D H --objects 4 -m 512K:1M
3 3 zr_alltoall D D --objects 8 --map-offset --offset 4099 -m 65536:262144
2 2 zr_alltoall H D --objects 8 -m 8:16
END
np=2
ranks 3 zr_bcast D H -i 1 -x 0 -m 8:16 --csv >"$work/out" 2>"$work/err"
[ "$(head -n 1 "$work/out")" = size,avg_us,min_us,max_us ] &&
    [ "$(awk -F, '/^[0-9]/ && $3 <= $2 && $2 <= $4' "$work/out" | wc -l)" -eq 2 ] ||
    { bad "--csv of a collective"; cat "$work/out" "$work/err"; }
unset ZR_TEST_COMPONENTS

ranks 4 zr_mbw_mr D D --objects 4 --fit -c -i 1 -x 0 -u 0 -W 4 -m 65536:65536 >"$work/out" 2>&1 &&
    grep -q '^# \[ pairs: 2 \]' "$work/out" && grep -q '^65536 .* Pass$' "$work/out" ||
    { bad "two pairs"; cat "$work/out"; }

# Formats: a header and two lines; a document whose results are two.
ranks 2 zr_mbw_mr H H -i 1 -x 0 -W 2 -m 8:16 --csv >"$work/out" 2>"$work/err"
[ "$(head -n 1 "$work/out")" = size,bandwidth_mb_s,messages_s ] &&
    [ "$(grep -c '^[0-9]*,[0-9.]*,[0-9.]*$' "$work/out")" -eq 2 ] ||
    { bad "--csv"; cat "$work/out" "$work/err"; }
json() {
    python3 -c 'import json, sys
results = json.load(sys.stdin)["results"]
sys.exit(len(results) != int(sys.argv[1]) or any(v < 0 for r in results for v in r.values()))' "$1"
}
ranks 2 zr_put_bw H H -i 1 -x 0 -W 2 -m 8:16 --json >"$work/out" 2>"$work/err"
json 2 <"$work/out" || { bad "--json of zr_put_bw"; cat "$work/out" "$work/err"; }
ranks 3 zr_alltoall H H -i 1 -x 0 -m 8:16 --json >"$work/out" 2>"$work/err"
json 2 <"$work/out" || { bad "--json of zr_alltoall"; cat "$work/out" "$work/err"; }

# Those without MPI.
while read -r results words; do
    # shellcheck disable=SC2086
    timeout -k 5 120 $words --json >"$work/out" 2>"$work/err" && json "$results" <"$work/out" ||
        { bad "$words"; cat "$work/out" "$work/err"; }
done <<'END'
2 zr_limit -m 64K:128K -W 2 -i 1 --objects 2
1 zr_limit -m 64K:64K -W 2 -i 1 --objects 2 -t 2
2 zr_engines -e 1:2 -s 1M -r 1 --objects 4
3 zr_range open --objects 1:16 -r 1
1 zr_range grow --objects 16 -r 1
2 zr_range register --ranges 100:1000 -r 1
END

while read -r allowed words; do
    # shellcheck disable=SC2086
    $words >"$work/out" 2>&1 </dev/null
    [ $? -eq 2 ] && grep -q -e "$allowed" "$work/out" || { bad "$words"; cat "$work/out"; }
done <<'END'
allowed:.1.to.16K zr_limit --objects 0
allowed:.\[MIN:\]MAX,.1.to.16 zr_engines -e 1:99
allowed:.open,.register,.grow zr_range shrink
END
finish
