# Options that this model or the other options make pointless are refused.
refused() {
    message=$1
    shift
    sluice 2 "$@"
    out_is ""
    err_has "option --$message"
}
for option in --top-k --top-p --min-p; do
    refused "${option#--} has no effect at temperature 0" run -m "$DRAFT" -p x --temp 0 $option 1
done
refused "repeat-last-n has no effect without --repeat-penalty" \
    run -m "$DRAFT" -p x --repeat-last-n 8
refused "expert-cache has no effect on a model without experts" \
    run -m "$DRAFT" -p x --expert-cache 1M
refused "expert-cache has no effect" inspect "$DRAFT" --expert-cache 1M
refused "expert-cache has no effect" eval -m "$DRAFT" --prompt x --expert-cache 1M
printf '[[1, 2, 3]]' >ids
refused "window has no effect on windows given one by one" \
    eval -m "$DRAFT" --token-ids ids --window 2

# What streams experts has no effect without any, nor does what the original's modes have not.
for option in stream-mode=seed policy=lru predict=off trace=t hot-start=h verify-reads; do
    refused "${option%=*} has no effect on a model without experts" run -m "$DRAFT" -p x "--$option"
done
for option in io=threads expert-cache=1M policy=lru predict=off trace=t hot-start=h verify-reads; do
    refused "${option%=*} has no effect in stream mode serial" \
        run -m "$MOE" -p x --stream-mode serial "--$option"
done
refused "policy has no effect in stream mode seed" inspect "$MOE" --stream-mode seed --policy lru
refused "policy has no effect in stream mode seed" \
    eval -m "$MOE" --prompt x --stream-mode seed --policy lru
