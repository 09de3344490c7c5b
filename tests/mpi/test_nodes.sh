#!/usr/bin/env bash
# Ranks on two and three hosts (nodes.sh says what a host is here): within a host device memory
# goes by ze_range and nothing else, between hosts by tcp, staged; every byte is checked.
. "${srcdir:?set by make check}/tests/mpi/lib.sh"
. "$srcdir/tests/mpi/nodes.sh"
nodes_begin "$0" "$@"

nodes_make 3 || { bad "the hosts cannot be made"; finish; }
[ ! -e "$builddir/.libs/mca_accelerator_zerange.so" ] || reduce=reduce
[ -z "${reduce:-}" ] || export ZR_TEST_COMPONENTS=$builddir/.libs
export UCX_LOG_FILE=$work/ucx-%p.log

# lanes WHERE: what UCX wrote that it uses for device memory between ranks that are WHERE.
lanes() { cat "$work"/ucx-*.log | awk -v where="$1" -f "$srcdir/benchmarks/lane.awk"; }

while read -r hosts each words; do
    rm -f "$work"/ucx-*
    # shellcheck disable=SC2086
    UCX_PROTO_INFO=y nodes_ranks "$hosts" "$each" "$builddir/tests/mpi/nodes" "$hosts" "$each" \
        $words ${reduce:-} >"$work/out" 2>&1 ||
        { bad "$hosts hosts of $each ranks: exit $?"; cat "$work/out"; grep -hv '|' "$work"/ucx-*; }
    grep '^case: ' "$work/out"
    [[ " $words " == *" device "* ]] || continue
    near=$(lanes intra-node) far=$(lanes inter-node)
    [[ $near != *$'\n'* && $near == "lane: ze_range (rendezvous zero-copy "* ]] ||
        bad "$hosts hosts: within a host: ${near:-no lane found}"
    # What reaches a buffer's fragments at the other end is of tcp too, and may be told apart.
    if [[ $far != *"frag host"* ]] || grep -qv '^lane: tcp (' <<<"$far"; then
        bad "$hosts hosts: between hosts: ${far:-no lane found}"
    fi
    printf 'case: within a host %s\ncase: between hosts %s\n' "$near" "${far%%$'\n'*}"
done <<'TABLE'
3 2
2 4 device
3 2 device
TABLE

# Why ze_range does not reach the other host. MPI gives a peer on another host no address of a
# transport within hosts; ucx_perftest gives all, so that ze_range is asked, and refuses.
export UCX_LOG_LEVEL=debug UCX_LOG_FILE=$work/perf-%p.log UCX_TLS=ze_range,ze_copy,self,tcp
options=(-p 13337)
! ldd "$(command -v ucx_perftest)" | grep -q libmpi || options+=(-P 0)
listening() { nodes_in 1 grep -qE "^ *[0-9]+: [0-9A-F]*:3419 [0-9A-F]*:0000 0A" /proc/net/tcp{,6}; }

nodes_in 1 timeout -k 5 60 ucx_perftest "${options[@]}" >"$work/server" 2>&1 &
server=$!
while kill -0 $server 2>/dev/null && ! listening; do
    read -rt 0.05 <> <(:)
done
nodes_in 2 timeout -k 5 60 ucx_perftest "${options[@]}" 10.107.0.1 -t ucp_put_bw -s 1000000 -n 10 \
    -w 1 >"$work/client" 2>&1
wait $server
reason=$(grep -ho 'ze_range does not reach a peer: .*' "$work"/perf-*.log "$work/client" \
    "$work/server" | grep -v 'same process$' | sort -u)
if ! grep -q '^Final:' "$work/client" || [[ $reason == *$'\n'* ]] ||
    [[ $reason != *"peer: different machine" ]]; then
    bad "ucx_perftest between hosts: ${reason:-no reason}"
    cat "$work/server" "$work/client"
fi
echo "case: between hosts ${reason:-nothing is said of ze_range}"
finish
