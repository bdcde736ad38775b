# One JSON object that holds everything and can be read back.
sluice 0 run -m "$MOE" -p "$LILY" -n 8 --temp 0 -q --json
out_has '{"text":" She loved to play outside in the sunshine","token_ids":[596,1614,286,815,1878,304,271,4676]'
out_has '"prompt_tokens":13,"completion_tokens":8,"finish_reason":"length"'
for key in prefill_tokens_per_s decode_tokens_per_s bytes_read read_bytes_per_s misses peak_rss_bytes stall_s hits; do
    [ -n "$(number $key)" ] || fail "no number $key"
done
[ "$(number prefill_tokens)" = 13 ] || fail "prefill_tokens"
[ "$(number decode_tokens)" = 7 ] || fail "decode_tokens: the last token is not fed"
[ "$(number bytes_read)" -gt 1000000 ] || fail "bytes_read"
[ "$(wc -l <out)" = 1 ] || fail "more than one line"
out_has '"stages":[{"block":"","name":"embedding","prefill_ns":'
out_has '{"block":"experts","name":"routed experts",'
keep first
sluice 0 run -m "$MOE" --token-ids first -n 3 --temp 0 -q --json
out_has '"prompt_tokens":8,"completion_tokens":3,'

# Any bytes in the prompt; half characters at the end of the text are replaced, JSON stays valid.
printf '\377\376\303 \360\237\230' >in
sluice 0 run -m "$DRAFT" -n 40 --ignore-eos --temp 5 --top-k 0 --top-p 1 -q --json
keep odd
rm in
sluice 0 run -m "$DRAFT" --token-ids odd -n 1 -q

# Where the time went, as a table beside the text.
sluice 0 run -m "$DRAFT" -p "$LILY" -n 4 --temp 0 -q --profile
err_has '| stage | prompt ms/token | share | decode ms/token | share | MB/token | GB/s |'
err_has '| dense: feed-forward | '
err_has '| all | '
