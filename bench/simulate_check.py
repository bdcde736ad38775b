#!/usr/bin/env python3
"""simulate_check.py MODEL [N_TOKENS] - what `sluice simulate` predicts beside what `sluice run` reaches.

One recording with a quarter of the experts held. Then, three times in turns for each budget: a short
run with a quarter held, for the time that computing takes beside reads and the rate at which the disk
gives what is waited for; the run itself, which also tells what share of the misses was foreseen; and
the prediction. Prints a Markdown table.

Environment: SLUICE names the program."""
import json
import os
import statistics
import subprocess
import sys
import tempfile

PROGRAM = os.environ.get("SLUICE", "build/release/sluice")
ROUNDS = 3
PROMPT = "Once upon a time"


def output(*args):
    return subprocess.run([PROGRAM, *args], check=True, capture_output=True, text=True).stdout


def run(model, cache, n, *more):
    """One run of n tokens with `cache` bytes of experts, cold."""
    for name in os.listdir(model):
        fd = os.open(os.path.join(model, name), os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
    return json.loads(output("run", "-q", "--json", "--ignore-eos", "-m", model, "-p", PROMPT, "-n", str(n),
                             "--expert-cache", str(cache), "--memory", str(cache + (1 << 30)), *more))


def stage_ms(result, *names):
    """Time a token spends in the stages named; without names in all but fetching."""
    tokens = result["stats"]["decode_tokens"]
    return sum(s["decode_ns"] for s in result["stages"]
               if (s["name"] in names if names else s["name"] != "fetching")) / tokens / 1e6


def foreseen(stats):
    """Share of what would have been missed that was read before it was asked for."""
    early = sum(p["used"] + p["late"] for p in stats["predict"].values())
    late = sum(p["late"] for p in stats["predict"].values())
    return early / (stats["misses"] - late + early)


def main():
    model, n = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 300
    info = json.loads(output("inspect", "-m", model, "--json"))
    experts = info["model"]["n_layers"] * info["model"]["n_experts"] * info["plan"]["slot_bytes"]
    shares = (10, 25, 50)
    with tempfile.TemporaryDirectory() as scratch:
        trace = os.path.join(scratch, "trace")
        run(model, experts // 4, n, "--trace", trace)
        print("| experts held | foreseen | computing, ms a token | disk, MB/s | predicted tokens/s | measured | off by |")
        print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
        for share in shares:
            predicted, measured, rates, seen, computing = [], [], [], [], []
            for _ in range(ROUNDS):
                probe = run(model, experts // 4, n // 4)
                rates.append(probe["stats"]["read_bytes_per_s"] / 1e6)
                computing.append(stage_ms(probe))
                result = run(model, experts * share // 100, n)
                seen.append(foreseen(result["stats"]))
                guess = json.loads(output(
                    "simulate", "-q", "--json", trace, "--expert-cache", f"{share}%", "--policy", "best",
                    "-m", model, "--disk", f"{rates[-1]:.1f}", "--compute-ms", f"{computing[-1]:.3f}", "--expert-ms",
                    f"{stage_ms(probe, 'shared expert', 'routed experts'):.3f}", "--foreseen", f"{seen[-1]:.3f}"))
                predicted.append(guess["results"][0]["tokens_per_s"])
                measured.append(result["stats"]["decode_tokens_per_s"])
            p, m = statistics.median(predicted), statistics.median(measured)
            print(f"| {share} % | {statistics.median(seen):.2f} | {statistics.median(computing):.1f} "
                  f"| {statistics.median(rates):.0f} | {p:.1f} | {m:.1f} "
                  f"| {100 * (p - m) / m:+.0f} % |", flush=True)


main()
