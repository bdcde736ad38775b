#!/usr/bin/env python3
"""Prints the residual stream of the float64 arbiter after every step, to find the first layer in
which another implementation departs.

  layer_dump.py FOLDER [--ids 1,2,3] [--position P] [--values N]

Without --ids the tokens of FOLDER/golden.bin are used; the position defaults to the last one.
"""

import argparse
import os

import numpy as np

import logits_file
import qwen3_5_numpy
from checkpoint import Checkpoint


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("folder")
    p.add_argument("--ids", help="comma-separated token ids")
    p.add_argument("--position", type=int, default=-1)
    p.add_argument("--values", type=int, default=6, help="how many values to print of each vector")
    a = p.parse_args()
    if a.ids:
        ids = [int(x) for x in a.ids.split(",")]
    else:
        ids = logits_file.read(os.path.join(a.folder, "golden.bin"))[0]

    def show(name, x):
        row = x[a.position]
        values = " ".join(f"{v:12.6f}" for v in row[: a.values])
        print(f"{name:16s} rms {np.sqrt((row * row).mean()):10.6f}  {values}")

    logits, _ = qwen3_5_numpy.forward(Checkpoint(a.folder), ids, show)
    show("logits", logits)


if __name__ == "__main__":
    main()
