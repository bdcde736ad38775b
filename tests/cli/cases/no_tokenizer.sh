# A folder without tokenizer.json works on ids alone, and says so otherwise.
mkdir model
for file in config.json generation_config.json model.safetensors; do
    ln -s "$DRAFT/$file" model/$file
done
printf '[1794, 649, 267, 551]' >ids
sluice 0 run -m "$DRAFT" --token-ids ids -n 5 --temp 0 -q --json
keep with
sluice 0 run -m model --token-ids ids -n 5 --temp 0 -q
made=$(cat out)
case $made in *[!0-9\ ]*) fail "not a list of ids: $made" ;; esac
grep -qF "\"token_ids\":[$(echo "$made" | tr ' ' ',')]" with || fail "other ids than with a tokenizer"
sluice 0 run -m model --token-ids ids -n 5 --temp 0 -q --json
out_has '{"text":"","token_ids":['
sluice 1 run -m model -p x
err_has "tokenizer.json"
sluice 1 run -m model --token-ids ids --stop x
err_has "stop strings need a tokenizer"
sluice 0 eval -m model --token-ids ids -q
out_has "predictions 3 "
