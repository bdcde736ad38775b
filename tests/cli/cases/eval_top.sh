# The likeliest continuations. Expected values: models/demo-moe/golden.json.
sluice 0 eval -m "$MOE" --exact --prompt "$LILY" --top-logprobs 3 --json -q
out_has '"token_ids":[1794,649,267,551,20,460,316,267,479,795,1745,1780,22]'
out_has '"top":[[{"id":649,"logprob":-0.0348'
out_has '},{"id":460,"logprob":-4.339'
out_has '},{"id":20,"logprob":-5.050'
out_has '}],[{"id":267,"logprob":'
[ "$(tr ']' '\n' <out | grep -c '{"id":')" = 13 ] || fail "not one list a token"
sluice 0 eval -m "$MOE" --exact --prompt "$LILY" --top-logprobs 2 -q
tab=$(printf '\t')
out_has "0${tab}1794${tab}649:-0.034"
out_has "12${tab}22${tab}"
out_has "perplexity "
printf '[1794]' >one # nothing to predict, but something to list
sluice 0 eval -m "$MOE" --token-ids one --top-logprobs 1 --json -q
out_has '"perplexity":null'
out_has '"top":[[{"id":649,'
