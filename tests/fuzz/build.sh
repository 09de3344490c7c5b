# Sourced: the project's own sources built once more, with clang and $sanitize, in $work.
# srcdir, builddir, work and flags (an array) are set by who sources this.

# value VARIABLE...: what the build knows.
value() {
    printf 'include Makefile\nprint-values:\n\t@echo %s\n' "$(printf '$(%s) ' "$@")" |
        make -s --no-print-directory -C "$builddir" -f - print-values
}

# compile FLAGS... -- SOURCE...: two at a time; objects are named after their sources.
compile() {
    local own=()
    while [ "$1" != -- ]; do
        own+=("$1")
        shift
    done
    shift
    # shellcheck disable=SC2016
    printf '%s\n' "$@" | xargs -P 2 -I{} bash -c '
        source=$1 object=$(echo "$1" | tr / _ | sed "s/c\$/o/")
        shift
        clang "$@" -c "'"$srcdir"'/$source" -o "$object"
    ' - {} "${flags[@]}" "${own[@]}"
}

objects() { printf '%s\n' "$@" | tr / _ | sed 's/c$/o/'; }

sources() { value "$1" | tr ' ' '\n' | grep '\.c$'; }

# Flags for the core's sources, in the array cpp; its sources in core, its libraries in libs.
core_flags() {
    read -ra cpp < <(value AM_CPPFLAGS | sed "s|-I\.\./\.\.|-I$srcdir|g")
    cpp+=(-DHAVE_CONFIG_H -I"$builddir" -I"$srcdir/src" -I"$srcdir/include")
    read -ra libs < <(value LIBDRM_LIBS)
    mapfile -t core < <(sources libzrcore_la_SOURCES)
}
