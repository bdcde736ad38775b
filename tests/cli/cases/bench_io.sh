# The rate of the disk for a model's experts.
sluice 0 bench io -m "$MOE" --depth 2,16 --seconds 0.1 -q
err_is ""
out_has "depth    2 "
out_has "depth   16 "
grep -q '^best depth [0-9]*: [0-9.]* MB/s through [a-z]*, [0-9.]* % of it alignment' out ||
    fail "no best depth"
sluice 0 bench io -m "$MOE" --depth 8 --seconds 0.1 --io threads --json -q
out_has '{"io":"threads",'
[ "$(number best_depth)" = 8 ] || fail "best_depth"
[ "$(number expert_bytes)" = $(($(number experts) * 27648)) ] || fail "expert_bytes"
[ "$(number bytes)" -ge "$(number expert_bytes)" ] || fail "fewer bytes than experts have"
[ "$(number reads)" -ge "$(number experts)" ] || fail "reads"
number best_bytes_per_s | awk '{ exit !($1 > 1e5 && $1 < 1e12) }' || fail "no plausible rate"

# The reads of a recorded run.
sluice 0 run -m "$MOE" -p "$LILY" -n 4 -q --trace t
sluice 0 bench io -m "$MOE" --trace t --depth 4 --seconds 0.1 -q
out_has "best depth 4"
printf 'no trace' >t
sluice 1 bench io -m "$MOE" --trace t --depth 4 -q
err_has "t: line 1"

sluice 1 bench io -m "$DRAFT" -q
err_has "without experts"
sluice 1 bench io -m "$MOE/missing" -q
sluice 2 bench io
err_has "sluice bench io: expected a model: -m DIR"
err_has "Try 'sluice bench io --help'."
for list in 0 4, 4,x 4097 2,2 1.5; do
    sluice 2 bench io -m "$MOE" --depth "$list"
    err_has "option --depth: "
done
sluice 2 bench io -m "$MOE" --trace t --seed 1
err_has "option --seed has no effect on the reads of a trace"
sluice 0 bench io --help
out_has "usage: sluice bench io -m DIR"
sluice 0 help bench io
out_has "usage: sluice bench io -m DIR"
