# Perplexity by the recipe of the reference: 16 windows of 512 tokens, each from an empty sequence.
ids_of() {
    tr -d '\n' <"$1/golden.json" | sed 's/.*"ppl_tokens": \(\[[^]]*\]\).*/\1/' >ids
}
near() { awk -v a="$1" -v b="$2" -v d="$3" 'BEGIN { exit !(a - b < d && b - a < d) }' ||
    fail "$1 is not within $3 of $2"; }
ids_of "$DRAFT"
sluice 0 eval -m "$DRAFT" --token-ids ids --json -q
out_has '"n_tokens":8192,"n_predictions":8176,"n_windows":16'
near "$(number perplexity)" 37.902357 0.02
near "$(number mean_nll)" 3.635013 0.0005
keep default
sluice 0 eval -m "$DRAFT" --token-ids ids --json -q --window 512 --threads 1
same default out
sluice 0 eval -m "$DRAFT" --token-ids ids -q
out_has "perplexity 37.90"

# A last window may be shorter; windows can be given one by one.
printf '[1794, 649, 267, 551, 20, 460, 316]' >seven
sluice 0 eval -m "$DRAFT" --token-ids seven --window 3 --json -q
out_has '"n_tokens":7,"n_predictions":4,"n_windows":3'
keep cut
printf '[[1794, 649, 267], [551, 20, 460], [316]]' >lists
sluice 0 eval -m "$DRAFT" --token-ids lists --json -q
same cut out
printf '%s' "$LILY" >text
sluice 0 eval -m "$DRAFT" --text text --json -q
out_has '"n_tokens":13,"n_predictions":12,"n_windows":1'
keep from_text
sluice 0 eval -m "$DRAFT" --prompt "$LILY" --json -q
same from_text out

sluice 1 eval -m "$DRAFT" --token-ids seven --window 9 -c 5
err_has "a window has 7 tokens, the context holds 5"
printf '[5]' >one
sluice 1 eval -m "$DRAFT" --token-ids one
err_has "no window has two tokens"
printf '[]' >none
sluice 1 eval -m "$DRAFT" --token-ids none
err_has "the text is empty"
