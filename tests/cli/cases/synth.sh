# Synthetic checkpoints: what is asked for wrongly, and a widened model that says the same.
sluice 2 synth made
err_has "expected one of --geometry and --inflate, found neither"
sluice 2 synth --geometry qwen3.5-35b-a3b --inflate "$DRAFT" made
err_has "found both"
sluice 2 synth --inflate "$DRAFT"
err_has "expected the name of a new folder"
sluice 2 synth --inflate "$DRAFT" --layers 2 made
err_has "option --layers has no effect with --inflate"
sluice 2 synth --geometry qwen3.5-35b-a3b --hidden 4096 made
err_has "option --hidden has no effect with --geometry"
sluice 2 synth --geometry qwen3.5-35b made
err_has "expected one of qwen3.5-35b-a3b|qwen3.5-122b-a10b|qwen3.5-397b-a17b, found 'qwen3.5-35b'"
sluice 1 synth --geometry qwen3.5-35b-a3b --layers 41 made
err_has "has 40 layers, 41 were asked for"
sluice 1 synth --inflate "$DRAFT" --hidden 256 made
err_has "the ratio must be a power of four"
sluice 1 synth --inflate "$DRAFT" --expert-hidden 256 made
err_has "dense model"
[ ! -e made ] && [ ! -e made.partial ] || fail "a refusal left something behind"

sluice 0 synth --inflate "$DRAFT" --hidden 512 wide
out_has "wide: "
[ ! -e wide.partial ] || fail "wide.partial is still there"
sluice 0 run -m "$DRAFT" -p "$LILY" -n 20 --temp 0 -q
keep original
sluice 0 run -m wide -p "$LILY" -n 20 --temp 0 -q
same original out
sluice 1 synth --inflate "$DRAFT" --hidden 512 wide
err_has "wide: expected a new or an empty folder"
sluice 0 synth --inflate "$DRAFT" --hidden 512 again
cmp -s wide/model.safetensors again/model.safetensors || fail "the same seed, other files"
sluice 0 synth --inflate "$DRAFT" --hidden 512 --seed 1 other
! cmp -s wide/model.safetensors other/model.safetensors || fail "another seed, the same files"
