#!/usr/bin/env bash
# zerange-tune measures devices with several copy engines, says so of others, and fails where there
# is none.
tune=${builddir:?set by make check}/zerange-tune
failed=0

# tells PROFILE STATUS TEXT: with that device it exits so and says that
tells() {
    local out status
    out=$(ZERANGE_SOFT=$1 timeout -k 5 300 "$tune" 2>&1)
    status=$?
    if [ $status -ne "$2" ] || ! grep -qE "$3" <<<"$out"; then
        echo "$1: status $status, expected $2 and '$3':"
        echo "$out"
        failed=1
    fi
}

tells dg2 0 'one copy engine: nothing to choose'
tells pvc 0 '^  (ZERANGE_SPLIT_THRESHOLD=[0-9]+K|one engine is as fast: ZERANGE_ENGINES=1)$'
tells nosuchdevice 1 'nosuchdevice'
exit $failed
