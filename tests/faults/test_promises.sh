#!/usr/bin/env bash
# docs/security.md names what there is: every test, case, file and variable in it exists.
: "${srcdir:?set by make check}"
cd "$srcdir" || exit 1
doc=docs/security.md failed=0
text=$(tr '\n' ' ' <"$doc") # names may be cut by the end of a line

# missing WHAT NAME: the line for a name that is not there.
missing() {
    echo "case: $1: FAILED: $2 is named in $doc and does not exist"
    failed=1
}
count=0
while read -r name; do
    count=$((count + 1))
    compgen -G "tests/faults/${name%.sh}.*" >/dev/null || missing tests "$name"
done < <(grep -oP '(?<=`)test_\w+(\.sh)?(?=`)' <<<"$text" | sort -u)
while read -r name; do
    count=$((count + 1))
    compgen -G "$name*" >/dev/null || missing files "$name"
done < <(grep -oP '(?<=`)(tests|src|ucx-plugin|docs)/[\w./-]+(?=`)' <<<"$text" | sort -u)
while read -r name; do
    count=$((count + 1))
    grep -rqF -- "\"$name\"" tests/faults tests/fuzz || grep -rqF -- "%s$name\"" tests/faults ||
        missing cases "$name"
done < <(grep -oP '(?<![*\w])\*(?! )[^*|]+(?<! )\*(?!\*)' <<<"$text" | tr -d '*' | sort -u)
while read -r name; do
    count=$((count + 1))
    grep -rqw -- "$name" src/util/config.c tests/faults/test_fuzz.sh || missing variables "$name"
done < <(grep -oP '\b(ZERANGE|ZR_FUZZ)_[A-Z_]+' <<<"$text" | sort -u)
[ "$count" -gt 40 ] || missing all "what a test would look for ($count names only)"
[ "$failed" -ne 0 ] || echo "case: promises: passed: $count names of tests, cases, files, variables"
exit "$failed"
