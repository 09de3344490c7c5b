#!/usr/bin/env bash
# nodes_agent.sh HOST COMMAND...: what mpirun starts in place of ssh: COMMAND on HOST (nodes.sh), by
# a shell and with the environment of a login.
host=$1
shift
dir=${ZR_NODES:?}/host${host##*[!0-9]}
exec nsenter -t "$(cat "$dir/pid")" --net --uts --ipc --mount --root --wd=/ -- \
    env -i PATH="$PATH" HOME="${HOME:-/}" ZR_NODES="$ZR_NODES" sh -c "$*"
