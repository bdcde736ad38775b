# A recorded run under other caches. LRU without prediction has to agree with the real thing.
sluice 0 run -m "$MOE" -p "$LILY" -n 40 -c 256 --ignore-eos --temp 0 --expert-cache 10M --policy lru \
    --predict off --trace t --json -q
real=$(number hit_rate)
sluice 0 simulate t --expert-cache 10M -m "$MOE" --policy lru --json -q
[ "$(number decode_tokens)" = 39 ] || fail "decode_tokens"
predicted=$(number hit_rate)
awk -v a="$real" -v b="$predicted" 'BEGIN { exit !(a > 0.1 && b - a < 0.02 && a - b < 0.02) }' ||
    fail "hit rate $predicted predicted, $real measured"

# More room holds more, the policy that knows the future holds most, a faster disk is faster.
sluice 0 simulate t --expert-cache 10%,100% --policy lru,belady --disk 100 --compute-ms 5 -q
out_has "12 layers of 128 experts, 8 a token; 39 tokens after the prompt"
[ "$(grep -c '^| 10% | 154 | \|^| 100% | 1536 | ' out)" = 4 ] || fail "not one row a combination"
awk -F'|' '/^\| 10% .*lru/ { lru = $5 + 0; slow = $8 + 0 }
           /^\| 10% .*belady/ { belady = $5 + 0 } /^\| 100% .*lru/ { all = $5 + 0 }
           END { exit !(lru < belady && belady < all && slow > 0 && slow < 200) }' out ||
    fail "rates out of order"
keep slow
sluice 0 simulate t --expert-cache 10%,100% --policy lru,belady --disk 1000 --compute-ms 5 -q
differ out slow
sluice 0 simulate t --memory 24M,64M -m "$MOE" -c 256 --policy best --json -q
out_has '"budget":"64M"'

sluice 1 simulate missing -q
err_has "missing"
printf 'sluice-trace 1 12 128 8\n' >empty
sluice 1 simulate empty -q
err_has "empty"
printf 'sluice-trace 1 12 128 8\n0 1 0 d 0 5m\n' >weightless
sluice 1 simulate weightless --expert-cache 1M -q
err_has "weightless"
sluice 1 simulate t --expert-cache 5 -q
err_has "5 holds no expert"
sluice 1 simulate t --memory 1M -m "$MOE" -q
err_has "--memory"
refused() {
    message=$1
    shift
    sluice 2 simulate "$@"
    out_is ""
    err_has "sluice simulate: $message"
}
refused "expected a trace"
refused "--memory needs the model" t --memory 8G
refused "expected one of --memory and --expert-cache" t --memory 8G --expert-cache 1G -m "$MOE"
refused "option --compute-ms has no effect without --disk" t --compute-ms 1
refused "option --ctx-size has no effect without --memory" t -c 100
refused "--expert-ms is a part of --compute-ms" t --disk 1 --compute-ms 1 --expert-ms 2
refused "option --policy: expected some of best|lru|lfu-decay|belady, found 'fifo'" t --policy fifo
refused "option --expert-cache: expected a size" t --expert-cache 10%,lots
refused "option --disk: expected a number" t --disk fast
