#!/usr/bin/env python3
"""Compares the float64 arbiter with the golden.json of a demo model: log-probabilities of the ten
most likely tokens at prompt positions. demo_check.py FOLDER [CASES]"""

import json
import os
import sys

import numpy as np

import qwen3_5_numpy
from checkpoint import Checkpoint

TOLERANCE = 2e-4  # in log-probability


def worst_difference(ck, case):
    logits, _ = qwen3_5_numpy.forward(ck, case["ids"])
    logp = logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)
    ids, recorded = np.array(case["top_ids"]), np.array(case["top_logprobs"])
    return np.abs(np.take_along_axis(logp, ids, -1) - recorded).max()


def main():
    folder, n = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2
    with open(os.path.join(folder, "golden.json"), encoding="utf-8") as f:
        cases = json.load(f)["cases"]
    ck = Checkpoint(folder)
    for case in cases[:n]:
        error = worst_difference(ck, case)
        print(
            f"{len(case['ids']):4d} positions, log-probabilities within {error:.1e}:"
            f" {case['prompt'][:50]!r}"
        )
        if not error < TOLERANCE:
            sys.exit(f"{folder}: expected < {TOLERANCE}")


if __name__ == "__main__":
    main()
