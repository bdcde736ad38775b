# Ctrl-C ends a run with what was made.
interrupted() {
    last="$*"
    "$program" "$@" </dev/null >out 2>err &
    pid=$!
    tries=0
    until grep -q "$ready" out err; do
        tries=$((tries + 1))
        [ $tries -lt 300 ] || fail "did not start"
        sleep 0.1
    done
    kill -INT $pid
    wait $pid
    got=$?
    [ $got = 130 ] || fail "exit $got, expected 130"
}
set -- -m "$MOE" -p "$LILY" --ignore-eos --temp 0 --cpu scalar --threads 1
ready='She loved'
interrupted run "$@" -q
err_is ""
ready='prompt of 13 tokens'
interrupted run "$@" --json
out_has '"finish_reason":"cancelled"'

tr -d '\n' <"$MOE/golden.json" | sed 's/.*"ppl_tokens": \(\[[^]]*\]\).*/\1/' >ids
ready='8192 tokens in windows of at most 512'
interrupted eval -m "$MOE" --token-ids ids --cpu scalar --threads 1 --prefill-chunk 16
out_is ""
