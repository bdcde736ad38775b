# What a model is and takes, for people and for programs.
sluice 0 inspect "$MOE" -q
err_is ""
out_has "qwen3_5_moe"
out_has "experts            128 a layer, 8 a token"
out_has "smallest budget"
sluice 0 inspect -m "$MOE" --json -q
for fact in '"model_type":"qwen3_5_moe"' '"n_params":81788976' '"n_layers":12' \
    '"n_experts":128' '"n_experts_per_tok":8' '"vocab_size":8192' '"stop_ids":[2,0]' \
    '"expert_bytes":27648' '"expert_bytes_per_token":2654208' '"ctx_size":4096'; do
    out_has "$fact"
done
smallest=$(number smallest_budget_bytes)
large=$(number state_bytes)
[ $(($(number file_bytes))) = 47290032 ] || fail "file_bytes"
sluice 0 inspect "$MOE" --json -q -c 256
[ "$(number state_bytes)" -lt "$large" ] || fail "a smaller context takes no less state"

# The smallest budget it names works, and a much smaller one is refused and says which works.
sluice 0 inspect "$MOE" --json -q --memory 1M
out_has '"n_slots":0'
sluice 0 inspect "$MOE" -q --memory 1M
out_has "does not fit"
sluice 0 run -m "$MOE" -p a -n 2 -q --memory "$((smallest + 4194304))"
sluice 1 run -m "$MOE" -p a -n 2 -q --memory "$((smallest / 2))"
sluice 0 inspect "$DRAFT" -q
out_lacks "expert"
sluice 1 inspect "$MOE/missing"
err_has "missing"
out_is ""
