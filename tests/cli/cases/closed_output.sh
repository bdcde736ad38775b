# A reader that leaves ends the run quietly; a disk that is full does not pass for success.
last='run | head'
{
    "$program" run -m "$DRAFT" -p "$LILY" --ignore-eos --temp 0 -q 2>err
    echo $? >code
} | head -c 10 >out
out_is " She loved"
[ "$(cat code)" = 0 ] || fail "exit $(cat code), expected 0"
err_is ""
[ -w /dev/full ] || exit 0
for command in "run -m $DRAFT -p a -n 4 -q" "run -m $DRAFT -p a -n 4 -q --json" \
    "inspect $DRAFT" "eval -m $DRAFT --prompt hello,world -q" "--help" "--version"; do
    last="$command >/dev/full"
    "$program" $command >/dev/full 2>err && fail "exit 0, expected failure"
    err_has "standard output: No space left on device"
done
