# The text of a run, and nothing else, on standard output. Expected: the greedy continuation that
# models/demo-moe/golden.json records from the reference implementation.
sluice 0 run -m "$MOE" -p "$LILY" -n 24 --temp 0 -q
out_is " She loved to play outside in the sunshine. One day, she saw a big tree with a nest on top. Lily"
err_is ""
keep text
sluice 0 run -m "$MOE" -p "$LILY" -n 24 --temp 0
same text out
err_has "prompt of 13 tokens, at most 24 to make in a context of 4096; temperature 0, seed 0"
sluice 0 run -m "$MOE" -p "$LILY" -n 24 --temp 0 -q --stats
same text out
for word in prompt decode experts disk memory; do err_has "$word "; done
err_has ' MB/s, '
