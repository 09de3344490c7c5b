#!/usr/bin/env bash
# Hot paths must not grow unseen: their instruction counts against those recorded.
: "${srcdir:?set by make check}"
if [ -n "${ZERANGE_CONFIGURE:-}" ] && [[ $ZERANGE_CONFIGURE == *sanitize* ]]; then
    echo "counts are of a build without sanitizers"
    exit 77
fi
exec bash "$srcdir/benchmarks/hotpaths/count.sh" --check "$srcdir/benchmarks/hotpaths/counts"
