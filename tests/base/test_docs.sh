#!/usr/bin/env bash
# Documents tell the truth: links lead somewhere, paths they name exist, every parameter is described, and the
# commands of the README run.
set -euo pipefail
# Some commands of the README start ranks, and Open MPI itself leaks.
export ASAN_OPTIONS=detect_leaks=0:${ASAN_OPTIONS-}
cd "$SOURCE"

failures=0
fail() {
    echo "$1"
    failures=$((failures + 1))
}

documents=(*.md docs/*.md)

# Relative links, and the headings they point at: lower case, spaces to dashes, punctuation gone.
headings() {
    sed -E '/^```/,/^```/d' "$1" | grep -E '^#+ ' | sed -E 's/^#+ +//; s/`//g' |
        tr '[:upper:]' '[:lower:]' | sed -E 's/[^[:alnum:] _-]//g; s/ /-/g' || true
}
for document in "${documents[@]}"; do
    while read -r target; do
        [ -n "$target" ] || continue
        case $target in http://* | https://* | mailto:*) continue ;; esac
        path=${target%%#*}
        file=$document
        if [ -n "$path" ]; then file=$(dirname "$document")/$path; fi
        if [ ! -e "$file" ]; then
            fail "$document: dead link $target"
        elif [[ $target == *"#"* ]] && ! headings "$file" | grep -qxF -- "${target#*#}"; then
            fail "$document: no heading for the link $target"
        fi
    done < <(sed -E '/^```/,/^```/d' "$document" | grep -oE '\]\([^) ]+\)' | sed -E 's/^\]\(//; s/\)$//' || true)
done

# Paths of the tree. A trailing slash is a folder; stars and <words> stand for any name.
for document in "${documents[@]}"; do
    while read -r path; do
        [ -n "$path" ] || continue
        compgen -G "$path" >/dev/null || fail "$document: $path does not exist"
    done < <(sed -E 's/<[a-z]+>/*/g' "$document" |
        grep -oE '\b(include/paradl|src|share|tests|docs|bench|examples|tools)/[A-Za-z0-9_.*/-]*' |
        sed -E 's/[.,:]+$//' | sort -u || true)
    # Headers by their own name, `oracle.h`.
    while read -r header; do
        [ -n "$header" ] || continue
        compgen -G "include/paradl/*/$header" >/dev/null || [ -e "tests/$header" ] || fail "$document: there is no header $header"
    done < <(grep -oE '`[a-z_]+\.h`' "$document" | tr -d '`' | sort -u || true)
done

# Documents that sources refer to, and their headings: docs/oracle.md, "Collectives".
while read -r document; do
    [ -n "$document" ] || continue
    [ -e "$document" ] || fail "sources refer to $document, which does not exist"
done < <(grep -rhoE 'docs/[a-z_]+\.md' src include tests bench examples | sort -u)
while IFS='|' read -r document heading; do
    [ -n "$document" ] || continue
    grep -qiE "^#+ .*$heading" "$document" || fail "sources refer to \"$heading\" in $document: no such heading"
done < <(grep -rhoE 'docs/[a-z_]+\.md, "[^"]+"' src include | sed -E 's/, "/|/; s/"$//' | sort -u)

# Every parameter and switch of the table has its row.
while read -r name; do
    grep -qE "^\| \`$name\` " docs/parameters_format.md || fail "docs/parameters_format.md does not describe $name"
done < <(sed -nE 's/^    X\(([a-z_0-9]+), .*/\1/p' include/paradl/oracle/oracle.h)

# Commands: indented lines that begin with "paradl", lines of a block that begin with "$ paradl", and what continues
# them.
if [ -n "${PARADL-}" ]; then
    cd "$TMPDIR"
    ln -s "$SOURCE/share" share
    commands=0
    while read -r arguments; do
        case $arguments in *--fit* | *--cross-validate* | *.onnx*) continue ;; esac # minutes; files of the user
        commands=$((commands + 1))
        # shellcheck disable=SC2086
        eval "\"\$PARADL\" $arguments" >out 2>err || fail "README.md: paradl $arguments: $(head -c 300 err)"
        [ -s out ] || fail "README.md: paradl $arguments prints nothing"
    done < <(sed -E ':a; /\\$/ { N; s/\\\n +/ /; ba }' "$SOURCE/README.md" |
        sed -nE 's/^( +|\$ )paradl ([a-z]+ .*)$/\2/p' | sed -E 's/ +#.*$//')
    [ "$commands" -ge 5 ] || fail "README.md: only $commands commands found"
fi

if [ "$failures" -gt 0 ]; then
    echo "$failures failures"
    exit 1
fi
echo "documents are as they should be"
