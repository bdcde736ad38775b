#!/bin/sh
# streaming.sh SCRATCH [PART]... - the measurements that docs/streaming.md reports. Each part writes
# its table (.md), every figure of every run (.csv) and, where there is one, a plot (.svg) to
# bench/results. Needs root for cgroups; SCRATCH is a folder on the disk to be measured.
#
#   full   the demo model widened to real expert sizes, 500 tokens at four budgets
#   modes  the same model: full, seed, serial and the page cache, 60 tokens
#   user   the same model as an ordinary user with 8 MiB of lockable memory (and no cgroup)
#   predict  the same model: what `sluice simulate` says, beside what runs reach
#   35b    random weights of qwen3.5-35b-a3b (20 GB), 8 GiB for the whole process
#   122b   random weights of qwen3.5-122b-a10b (69 GB; LAYERS=N: fewer), 16 GiB
#
# Environment: SLUICE names the program, ROUNDS the number of rounds (default 5, of modes 3).
set -eu
cd "$(dirname "$0")/.."
program=$(realpath "${SLUICE:-build/release/sluice}") results=$(pwd)/bench/results
[ $# -ge 1 ] || { sed -n '2,14s/^# \{0,1\}//p' "$0" >&2; exit 2; }
scratch=$1
shift
[ $# -gt 0 ] || set -- full modes user predict 35b 122b
mkdir -p "$scratch" "$results"

# model NAME SYNTH-OPTIONS... - makes the checkpoint unless it is there.
model() {
  name=$1
  shift
  [ -e "$scratch/$name/config.json" ] || "$program" synth "$@" "$scratch/$name"
}

# measure RESULT MODEL BENCH-OPTIONS...
measure() {
  result=$1 name=$2
  shift 2
  echo "== $result"
  (cd "$scratch" && "$program" bench -m "$name" --csv "$scratch/out.csv" "$@") >"$scratch/out.md"
  keep "$result"
}

# keep RESULT - out.md and out.csv of the scratch folder become a result, now that they are complete.
keep() {
  cat "$scratch/out.md"
  mv "$scratch/out.md" "$results/$1.md"
  [ ! -e "$scratch/out.csv" ] || mv "$scratch/out.csv" "$results/$1.csv"
}

inflated() { model inflated --inflate models/demo-moe --hidden 4096 --expert-hidden 256; }

# A random model has no tokenizer, and at such a temperature its tokens are drawn evenly: no expert
# is a favourite. evenly MODEL BENCH-OPTIONS...
evenly() {
  name=$1
  shift
  echo '[11, 222, 3333, 44444]' >"$scratch/ids.json"
  measure "$name" "$name" --cgroup --token-ids ids.json --temp 100 --seed 1 -c 2048 \
    --stream-mode full,serial --predict auto,off --rounds "${ROUNDS:-5}" "$@"
}

for part in "$@"; do
  case $part in
  full)
    inflated
    measure inflated_full inflated --cgroup --expert-cache 10%,25%,50%,100% --stream-mode full \
      -n 500 --rounds "${ROUNDS:-5}" --svg "$results/inflated_full.svg"
    ;;
  modes)
    inflated
    measure inflated_modes inflated --cgroup --expert-cache 10%,25%,50%,100% \
      --stream-mode full,seed,serial --io auto,buffered -n 60 --rounds "${ROUNDS:-3}" \
      --svg "$results/inflated_modes.svg"
    ;;
  user)
    inflated
    chown -R 65534:65534 "$scratch/inflated" # whose page cache an ordinary user can look at
    chmod a+rx "$scratch"
    work=$(mktemp -d)
    chmod a+rwx "$work"
    cp "$program" "$work/sluice"
    (cd "$scratch" && ulimit -l 8192 &&
      setpriv --reuid=65534 --regid=65534 --clear-groups "$work/sluice" bench -m inflated \
        --expert-cache 10%,25%,50%,100% --stream-mode full -n 500 --rounds "${ROUNDS:-5}" \
        --csv "$work/out.csv") >"$scratch/out.md"
    mv "$work/out.csv" "$scratch/out.csv"
    keep inflated_user
    rm -rf "$work"
    ;;
  predict)
    inflated
    sed -n '1{p;s/.*//p;}' "$results/inflated_full.md" >"$scratch/out.md" # the machine
    SLUICE="$program" bench/simulate_check.py "$scratch/inflated" >>"$scratch/out.md"
    keep inflated_predict
    ;;
  35b)
    model 35b --geometry qwen3.5-35b-a3b
    evenly 35b --memory 8G -n 30
    ;;
  122b)
    model 122b --geometry qwen3.5-122b-a10b ${LAYERS:+--layers "$LAYERS"}
    evenly 122b --memory 16G -n 20
    ;;
  *)
    echo "streaming.sh: unknown part '$part'" >&2
    exit 2
    ;;
  esac
done
