# The seed decides the text; threads, passes, cache, CPU level and readers do not.
set -- -m "$MOE" -p "$LILY" -n 40 --temp 1 --top-k 0 --top-p 0.95 -q
sluice 0 run "$@" --seed 7
keep seven
sluice 0 run "$@" --seed 8
differ seven out
for variant in "--threads 1" "--prefill-chunk 3" "--expert-cache 2M" "--cpu scalar" "--io threads" \
    "-c 64" "--memory 48M"; do
    sluice 0 run "$@" --seed 7 $variant
    same seven out
done
sluice 0 run -m "$MOE" -p "$LILY" -n 40 --temp 0 -q
keep greedy
sluice 0 run -m "$MOE" -p "$LILY" -n 40 --top-k 1 -q
same greedy out
sluice 0 run -m "$MOE" -p "$LILY" -n 40 --temp 0 --repeat-penalty 1.5 -q
differ greedy out
sluice 0 run -m "$MOE" -p "$LILY" -n 40 --temp 0 --presence-penalty 2 -q
differ greedy out
