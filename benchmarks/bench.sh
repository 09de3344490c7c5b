#!/usr/bin/env bash
# ./run bench [--quick] [--objects N] [--rounds N] [--out DIR]: see bench.py. Called by ./run, with
# the environment set.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
command -v python3 >/dev/null || { echo "bench: needs python3" >&2; exit 1; }
exec python3 "$here/bench.py" "$@"
