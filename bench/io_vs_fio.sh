#!/bin/sh
# io_vs_fio.sh [MODEL] - `sluice bench io` against fio on the same files: random direct reads of the
# same sizes, at the depth that suits sluice best, in rounds that alternate. Prints both rates and
# their ratio, per round and the median.
#
# Environment: SLUICE names the program, ROUNDS the number of rounds, SECONDS_EACH the time of each
# measurement.
set -eu
cd "$(dirname "$0")/.."
program=${SLUICE:-build/release/sluice} rounds=${ROUNDS:-5} seconds=${SECONDS_EACH:-3}
model=${1:-models/demo-moe}
command -v fio >/dev/null || { echo "fio is not installed (apt install fio)" >&2; exit 1; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# field NAME - the number called NAME in the JSON of the last measurement.
field() { grep -o "\"$1\": *[0-9.e+-]*" "$scratch/out" | head -1 | sed 's/.*: *//'; }

ours() { "$program" bench io -m "$model" --depth "$1" --seconds "$seconds" --json -q >"$scratch/out"; }

# The sizes of an expert's reads, each with the same share: 4096/11:524288/11:...
splits() {
  grep -o '"read_sizes": *\[[0-9,]*\]' "$scratch/out" | tr -dc '0-9,\n' | tr ',' '\n' |
    awk '{ size[NR] = $1 }
         END { for (i = 1; i <= NR; i++)
                 printf "%s%d/%d", (i > 1 ? ":" : ""), size[i],
                 (i < NR ? int(100 / NR) : 100 - (NR - 1) * int(100 / NR)) }'
}

ours 1,2,4,8,16,32,64,128
depth=$(field best_depth)
split=$(splits)
files=$(find -L "$model" -type f \( -name '*.safetensors' -o -name '*.pack' \) | sort | paste -s -d:)

echo "$(uname -sr), $("$program" --version), $(fio --version); $model, depth $depth, sizes $split"
round=1
while [ "$round" -le "$rounds" ]; do
  ours "$depth"
  sluice_rate=$(field best_bytes_per_s)
  # Memory on huge pages and registered, files registered, as ours are: else fio is the slower one.
  GLIBC_TUNABLES=glibc.malloc.hugetlb=1 fio --name=experts --filename="$files" --readonly \
    --rw=randread --direct=1 --ioengine=io_uring --fixedbufs=1 --registerfiles=1 \
    --bssplit="$split" --blockalign=512 --iodepth="$depth" --runtime="$seconds" --time_based \
    --randrepeat=0 --norandommap --output-format=terse >"$scratch/fio"
  cut -d';' -f7 "$scratch/fio" | awk -v ours="$sluice_rate" '{
    fio = $1 * 1024; printf "%.1f %.1f %.3f\n", ours / 1e6, fio / 1e6, ours / fio }' | tee -a "$scratch/rows" |
    awk -v round="$round" '{ printf "round %d: sluice %s MB/s, fio %s MB/s, ratio %s\n", round, $1, $2, $3 }'
  round=$((round + 1))
done
sort -n -k3 "$scratch/rows" | awk '{ r[NR] = $3 }
  END { printf "median ratio %.3f\n", (r[int((NR + 1) / 2)] + r[int(NR / 2) + 1]) / 2 }'
