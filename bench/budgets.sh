#!/bin/sh
# budgets.sh [MODEL [BUDGET...]] - what a smaller memory budget costs: the same generation within
# each budget, five rounds that alternate between the budgets, printed as a Markdown table with the
# machine above it. Fails if the text differs anywhere.
#
# Environment: SLUICE names the program, ROUNDS the number of rounds.
set -eu
cd "$(dirname "$0")/.."
program=${SLUICE:-build/release/sluice} rounds=${ROUNDS:-5}
model=${1:-models/demo-moe}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- 24M 32M 48M 64M

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# field NAME FILE - the number called NAME in a JSON object.
field() { grep -o "\"$1\": *[0-9.e+-]*" "$2" | sed 's/.*: *//'; }

round=1
while [ "$round" -le "$rounds" ]; do
  for budget in "$@"; do
    out=$scratch/$budget.$round
    "$program" run -m "$model" --memory "$budget" -c 1024 -n 200 --seed 7 --ignore-eos --json \
      -p "Once upon a time" >"$out" 2>"$scratch/messages" || { cat "$scratch/messages" >&2; exit 1; }
    grep -o '"text": *"\(\\.\|[^"\\]\)*"' "$out" >"$scratch/text"
    [ -f "$scratch/first" ] || cp "$scratch/text" "$scratch/first"
    cmp -s "$scratch/text" "$scratch/first" || { echo "the text differs at $budget" >&2; exit 1; }
    echo "$(field decode_tokens_per_s "$out") $(field bytes_read "$out") $(field hits "$out")" \
      "$(field misses "$out") $(field peak_rss_bytes "$out")" >>"$scratch/$budget.rows"
  done
  round=$((round + 1))
done

echo "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | sort | uniq -c | sed 's/^ *\([0-9]*\) /\1 x /')," \
  "$(uname -sr), $("$program" --version), commit $(git rev-parse --short HEAD)"
echo "200 tokens from $model ($(du -bcL "$model"/*.safetensors | awk 'END { printf "%.1f", $1 / 1e6 }')" \
  "MB of weights), median (lowest to highest) of $rounds alternating rounds:"
echo
echo "| memory limit | peak memory | tokens/s | read from disk | experts in cache |"
echo "| ---: | ---: | ---: | ---: | ---: |"
for budget in "$@"; do
  sort -n "$scratch/$budget.rows" | awk -v budget="$budget" '
    { rate[NR] = $1; read = $2; hits = $3; misses = $4; if ($5 > peak) peak = $5 }
    END {
      median = NR % 2 ? rate[(NR + 1) / 2] : (rate[NR / 2] + rate[NR / 2 + 1]) / 2
      printf "| %s | %.1f MiB | %.1f (%.1f to %.1f) | %.1f MB | %.0f %% |\n", budget,
        peak / 1048576, median, rate[1], rate[NR], read / 1e6, 100 * hits / (hits + misses)
    }'
done
