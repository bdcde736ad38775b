#!/bin/sh
# Runs one case of tests/cli: run_case.sh SLUICE MODELS CASE.sh
#
# A case is a POSIX sh script that uses the functions below. It runs in an empty folder of its own;
# the first check that fails ends it with both outputs shown.
#
#   sluice EXIT ARGS...  runs the program (standard input: the file `in`, if there), expects EXIT
#   out_is TEXT          standard output is exactly TEXT
#   out_has TEXT         ... contains TEXT        err_has TEXT, err_is TEXT: standard error
#   keep NAME            copies standard output to NAME
#   same A B             two files are equal      differ A B: they are not
#   number KEY           prints the number of "KEY" in the JSON on standard output
set -u
program=$1
MODELS=$2
case_file=$3
MOE=$MODELS/demo-moe
DRAFT=$MODELS/demo-draft
LILY='Once upon a time, there was a little girl named Lily.'

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
unset SLUICE_CPU
last='(nothing run yet)'

fail() {
    printf '%s: %s\nlast: sluice %s\n--- stdout\n' "$(basename "$case_file")" "$1" "$last"
    head -c 2000 out 2>/dev/null
    printf '\n--- stderr\n'
    head -c 2000 err 2>/dev/null
    exit 1
}

sluice() {
    want=$1
    shift
    last="$*"
    if [ -e in ]; then
        "$program" "$@" <in >out 2>err
    else
        "$program" "$@" </dev/null >out 2>err
    fi
    got=$?
    [ "$got" = "$want" ] || fail "exit $got, expected $want"
}

is() {
    printf '%s' "$2" >expected
    cmp -s "$1" expected || fail "std$1 is not exactly: $2"
}
out_is() { is out "$1"; }
err_is() { is err "$1"; }
out_has() { grep -qF -- "$1" out || fail "not on standard output: $1"; }
out_lacks() { ! grep -qF -- "$1" out || fail "on standard output: $1"; }
err_has() { grep -qF -- "$1" err || fail "not on standard error: $1"; }
keep() { cp out "$1"; }
same() { cmp -s "$1" "$2" || fail "$1 and $2 differ"; }
differ() { ! cmp -s "$1" "$2" || fail "$1 and $2 are equal"; }
number() { sed -n 's/.*"'"$1"'":\(-\{0,1\}[0-9.e+-]*\).*/\1/p' out; }

. "$case_file"
