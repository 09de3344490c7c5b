#!/usr/bin/env bash
# What `make install` leaves: every file of it belongs to a Debian package (packaging/debian/*.install),
# and the installed driver, transport and benchmark move ranges between ranks.
# SPDX-License-Identifier: BSD-3-Clause
set -u
: "${srcdir:?set by make check}" "${builddir:?set by make check}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
bad() { echo "not ok: $*"; failed=1; }

make -C "$builddir" -s install DESTDIR="$work" prefix=/usr libdir=/usr/lib/any \
    libexecdir=/usr/libexec >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
# What debian/rules takes away: what nothing links to.
find "$work" -name '*.la' -delete
rm -f "$work"/usr/lib/any/libze_zerange.so "$work"/usr/lib/any/zerange/ucx/libuct_zerange.so

mapfile -t patterns < <(cat "$srcdir"/packaging/debian/*.install | awk '$1 ~ /^usr/ { print $1 }')
taken() {
    local pattern
    for pattern in "${patterns[@]}"; do
        # shellcheck disable=SC2254
        case $1 in $pattern) return 0 ;; esac
    done
    return 1
}
count=0
while read -r file; do
    count=$((count + 1))
    taken "$file" || bad "$file is in no package"
done < <(cd "$work" && find usr ! -type d)
for pattern in "${patterns[@]}"; do
    compgen -G "$work/$pattern" >/dev/null || bad "no file is installed for $pattern"
done
echo "$count files"

[ -x "$work/usr/bin/zr_bw" ] || { bad "zr_bw is not installed"; exit 1; }
lib=$work/usr/lib/any
# A UCX without UCX_PLUGIN_PATH has the transport preloaded.
case ${LD_PRELOAD:-} in
*libuct_zerange*) export LD_PRELOAD=$lib/zerange/ucx/libuct_zerange.so.0 ;;
*) export UCX_PLUGIN_PATH=$lib/zerange/ucx ;;
esac
ZE_ENABLE_ALT_DRIVERS=$lib/libze_zerange.so.1 \
    ZERANGE_PROFILES=$work/usr/share/zerange/profiles UCX_TLS=ze_range,ze_copy,sm,self \
    timeout 100 bash "$srcdir/tests/mpirun.sh" -np 2 "$work/usr/bin/zr_bw" --objects 8 \
    -m 65536:65536 -i 5 -c D D >"$work/out" 2>&1 </dev/null || { cat "$work/out"; bad "zr_bw"; }
grep -qE '^65536 +[0-9.]+ +Pass$' "$work/out" || { cat "$work/out"; bad "zr_bw: no Pass"; }
exit $failed
