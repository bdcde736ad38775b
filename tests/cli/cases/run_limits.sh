# Where a run ends: the context, the limit, the model's own stop token.
set -- -m "$DRAFT" --temp 0 -q --json
sluice 0 run "$@" -p "$LILY" -c 20 --ignore-eos
out_has '"completion_tokens":7,"finish_reason":"length"'
sluice 0 run "$@" -p "$LILY" -c 14
out_has '"completion_tokens":1,"finish_reason":"length"'
sluice 1 run "$@" -p "$LILY" -c 13
out_is ""
err_has "the prompt has 13 tokens"
err_has "the context holds 13"
sluice 0 run "$@" -p "$LILY" -n 1 --ignore-eos
out_has '"completion_tokens":1,"finish_reason":"length"'
sluice 1 run -m "$MOE" -p "$LILY" --memory 1M -q
err_has "memory"
