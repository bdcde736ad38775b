# A widened mixture of experts says what the original says, with memory for a few experts only.
sluice 0 synth --inflate "$MOE" --hidden 1024 --expert-hidden 128 wide
sluice 0 run -m "$MOE" -p "$LILY" -n 60 --temp 0 -c 256 -q
keep original
sluice 0 inspect wide -c 256 --json
smallest=$(number smallest_budget_bytes)
sluice 0 run -m wide -p "$LILY" -n 60 --temp 0 -c 256 -q --memory $((smallest + 8388608))
same original out
