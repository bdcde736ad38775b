# Lists and combinations that make no sense are refused before anything runs.
refused() {
    message=$1
    shift
    sluice 2 bench "$@"
    out_is ""
    err_has "sluice bench: $message"
}
refused "expected a model: -m DIR"
refused "option --expert-cache: expected a size such as 512M or 8G, or a share such as 25%, found '0%'" \
    -m "$MOE" --expert-cache 10%,0%
refused "option --expert-cache: expected a size" -m "$MOE" --expert-cache 101%
refused "option --expert-cache: '10%' stands there twice" -m "$MOE" --expert-cache 10%,10%
refused "option --memory: expected a size such as 512M or 8G, found '10%'" -m "$MOE" --memory 10%
refused "option --memory: an item of the list is empty" -m "$MOE" --memory 8G,
refused "expected one of --memory and --expert-cache" -m "$MOE" --memory 8G --expert-cache 1G
refused "option --stream-mode: expected some of full|seed|serial, found 'fast'" \
    -m "$MOE" --stream-mode full,fast
refused "option --io: expected some of auto|uring|threads|buffered, found 'mmap'" -m "$MOE" --io mmap
refused "option --policy: expected some of best|lru|lfu-decay, found 'belady'" \
    -m "$MOE" --policy belady
refused "expected one prompt, found 2" -m "$MOE" -p x -f y
refused "every run reads the prompt again" -m "$MOE" -f -
refused "--cgroup needs budgets" -m "$MOE" --cgroup
refused "option --rounds: expected a whole number from 1 to 1000, found '0'" -m "$MOE" --rounds 0
refused "unexpected argument 'oi'" oi -m "$MOE"
