# What is wrong with a command line is said before anything is loaded, with exit code 2.
refused() {
    message=$1
    shift
    sluice 2 "$@"
    out_is ""
    err_has "sluice $1: $message"
    err_has "Try 'sluice $1 --help'."
}
refused "expected a model: -m DIR" run -p x
refused "expected a model: -m DIR" eval --prompt x
refused "expected one model folder, found none" inspect
refused "expected one model folder, found two" inspect -m "$MOE" "$MOE"
refused "unknown option --max-token: did you mean --max-tokens?" run -m "$MOE" --max-token 3
refused "unknown option --temp" inspect "$MOE" --temp 0
refused "option --temp: expected a number from 0 to 100, found 'warm'" run -m "$MOE" --temp warm
refused "option --memory: expected a size such as" run -m "$MOE" --memory lots
refused "option --seed: expected a whole number from 0 to" run -m "$MOE" --seed -1
refused "option -n: expected N after it, found nothing" run -m "$MOE" -n
refused "option --threads: expected a whole number from 1 to 1024, found '0'" \
    run -m "$MOE" --threads 0
refused "option --io: expected one of auto|uring|threads|buffered, found 'mmap'" run -m "$MOE" --io mmap
refused "option --cpu: expected one of" eval -m "$MOE" --prompt x --cpu mmx
refused "option --json is given twice" run -m "$MOE" --json --json
refused "unexpected argument 'x'" run -m "$MOE" x
refused "expected one prompt, found 2" run -m "$MOE" -p x -f y
refused "expected one of --quiet and --verbose" run -m "$MOE" -q -v
refused "option --raw has no effect on --token-ids" run -m "$MOE" --token-ids x --raw
refused "expected one of --text, --token-ids, --prompt, found 0" eval -m "$MOE"
refused "expected one of --text, --token-ids, --prompt, found 2" \
    eval -m "$MOE" --prompt x --text y
refused "option --window has no effect on --prompt" eval -m "$MOE" --prompt x --window 5
