# Hosts for the tests of several nodes: namespaces of one kernel that differ in all a host is told
# by. Sourced after lib.sh.
#
# What is a host's own, and how it is made so here:
#   network              a network namespace; a veth pair joins it to a bridge, nothing else does
#   name                 a UTS namespace (Open MPI takes processes of one name for one host's)
#   boot id              another file is mounted over /proc/sys/kernel/random/boot_id. UCX makes its
#                        system id of it, with which its transports, ours too, know their own host;
#                        the driver puts it into the table of a range (src/ipc/identity.c)
#   shared memory        an IPC namespace, and a /dev/shm of its own
# Process numbers are of one pid namespace, as they may be equal on two real hosts: neither part
# may tell hosts apart by them. Abstract Unix sockets are the network namespace's.
#
# All of it lives in namespaces of the test's own: they end with its first process, however it ends.
# shellcheck shell=bash

nodes_name=zr-host

# Starts the script again as the first process of new namespaces; skips it where none can be made.
nodes_begin() { # "$0" "$@"
    local ns=(--net --mount --pid --fork --kill-child --mount-proc) why
    if [ "${ZR_NODES_INSIDE:-}" = 1 ]; then
        trap 'exit 1' INT TERM HUP
        return
    fi
    [ "$(id -u)" -eq 0 ] || ns+=(--user --map-root-user)
    # Mounts of a host are its own. In a chroot / is no mount whose propagation could be changed.
    if mountpoint -q /; then
        ns+=(--propagation private)
    elif ! grep -q ' shared:' /proc/self/mountinfo; then
        ns+=(--propagation unchanged)
    fi
    why=$(unshare "${ns[@]}" bash -c 'ip link add zr-bridge type bridge &&
        ip link add zr1 type veth peer name zr2 && unshare --net --uts --ipc true' 2>&1) || {
        echo "SKIP: namespaces with a bridge cannot be made here: ${why:-no reason given}"
        exit 77
    }
    rm -rf "$work"
    ZR_NODES_INSIDE=1 exec unshare "${ns[@]}" bash "$@"
}

# The life of a host: what only a process inside can set, a word to the maker, then waiting.
nodes_host() { # K
    hostname "$nodes_name$1" && mount --bind "$work/host$1/boot_id" \
        /proc/sys/kernel/random/boot_id && mount -t tmpfs none /dev/shm && ip link set lo up ||
        return 1
    echo "up" >"$work/host$1/ready"
    exec sleep infinity
}

# Makes hosts 1 to N.
nodes_make() { # N
    local k dir pid word
    export work nodes_name ZR_NODES=$work
    export -f nodes_host
    ip link add zr-bridge type bridge && ip link set zr-bridge up || return 1
    for ((k = 1; k <= $1; k++)); do
        dir=$work/host$k
        mkdir "$dir" && mkfifo "$dir/ready" && exec 9<>"$dir/ready" || return 1
        cat /proc/sys/kernel/random/uuid >"$dir/boot_id"
        unshare --net --uts --ipc --mount --propagation unchanged \
            bash -c "nodes_host $k || echo down >'$dir/ready'" &
        pid=$!
        echo $pid >"$dir/pid"
        read -r word <&9 && [ "$word" = up ] || return 1
        ip link add "zr$k" type veth peer name eth0 netns "$pid" &&
            ip link set "zr$k" master zr-bridge up &&
            nodes_in "$k" ip address add "10.107.0.$k/24" dev eth0 &&
            nodes_in "$k" ip link set eth0 up || return 1
    done
    exec 9>&-
}

# nodes_in K CMD...: CMD on host K. The root is named since a mount namespace's own is not ours.
nodes_in() {
    local target
    target=$(cat "$work/host$1/pid")
    shift
    nsenter -t "$target" --net --uts --ipc --mount --root --wd="$PWD" -- "$@"
}

# nodes_ranks HOSTS RANKS-A-HOST OPTIONS AND PROGRAM...: mpirun on host 1, as from its command
# line: what the ranks need of the environment is named.
nodes_ranks() {
    local hosts=$1 each=$2 list='' forward=() name k
    shift 2
    for ((k = 1; k <= hosts; k++)); do
        list+=,$nodes_name$k:$each
    done
    for name in ZE_ENABLE_ALT_DRIVERS LD_PRELOAD $(compgen -e | grep -E '^(UCX|ZERANGE)_'); do
        [ -z "${!name:-}" ] || forward+=(-x "$name")
    done
    # PMIx 7.0.0~rc1 (forky): its store in shared memory answers a process that asks for a peer on
    # its own host with the address meant for other hosts, which names no transport of a host.
    PMIX_MCA_gds=hash PRTE_MCA_plm_ssh_agent=$srcdir/tests/mpi/nodes_agent.sh nodes_in 1 \
        timeout -k 5 120 bash "$srcdir/tests/mpirun.sh" --host "${list:1}" -np $((hosts * each)) "${forward[@]}" \
        "$@" </dev/null
}
