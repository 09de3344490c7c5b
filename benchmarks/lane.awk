# Reads the tables UCX prints with UCX_PROTO_INFO=y and names the lane it uses for the largest
# messages from device memory: "lane: TRANSPORT (PROTOCOL)", one line for each different one.
#
#   +-----------+-------------------------------------------+---------------+
#   | ucp_context_0 intra-node cfg#2                                        |
#   | tagged message by ucp_tag_send* from ze-device memory                 |
#   +-----------+-------------------------------------------+---------------+
#   |   Range   |                Description                |    Config     |
#   | 5029..inf | (?) rendezvous zero-copy read from remote | ze_range/GPU0 |
#
# With -v memory=generic (derived types) instead of ze-device.
# With -v where=intra-node (inter-node) only of peers on this host (on others).
#
# Two ranks may write into one file: a table belongs to the process named in front of its lines.

BEGIN { memory = memory == "" ? "ze-device" : memory }

function trim(s) { gsub(/^[ \t]+|[ \t]+$/, "", s); return s }

function transports(config,    n, parts, i, name, names) {
    n = split(config, parts, /,| and /)
    for (i = 1; i <= n; i++) {
        name = trim(parts[i])
        sub(/^[0-9.]+% on /, "", name)
        sub(/[\/ ].*$/, "", name)
        if (name != "" && index("+" names "+", "+" name "+") == 0)
            names = names (names == "" ? "" : "+") name
    }
    return names
}

{
    if (index($0, "|") == 0)
        next
    process = substr($0, 1, index($0, "|") - 1)
    sub(/^\[[0-9.]*\] */, "", process)
    process = FILENAME " " trim(process)
    n = split(substr($0, index($0, "|") + 1), cell, "|")
    for (i = 1; i <= n; i++)
        if (cell[i] ~ /cfg#/)
            here[process] = index(cell[i], where)
    for (i = 1; i <= n; i++)
        if (cell[i] ~ /tagged message|rendezvous data fetch|active message by/)
            table[process] = index(cell[i], memory) ? (cell[i] ~ /fetch/ ? 2 : 1) : 0
    range = trim(cell[1])
    if (n < 3 || range !~ /\.\.inf$/ || !table[process] ||
        where != "" && !here[process])
        next
    what = trim(cell[2])
    sub(/^\(\?\) */, "", what)
    if (table[process] == 2 && what !~ /rendezvous/)
        what = "rendezvous " what
    name = transports(cell[3])
    if (name == "") # UCX leaves the field empty where several lanes work one after another
        name = what ~ /frag host/ ? "staging in host memory" : "unnamed"
    lane = "lane: " name " (" what ")"
    if (!seen[table[process], lane]++)
        found[table[process]] = found[table[process]] lane "\n"
}

END {
    # What the receiver decided stands above what the sender expected of it.
    printf "%s", found[2] != "" ? found[2] : found[1]
}
