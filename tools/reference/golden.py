#!/usr/bin/env python3
"""Makes the models and recorded logits of tests/golden.

  golden.py                     every case into tests/golden
  golden.py moe-q4g64 ...       these cases
  golden.py --check             the recorded logits against the arbiter; writes nothing

golden.bin holds the logits of transformers, golden_mlx.bin those of mlx-lm on the packed weights;
logits_file.py describes the format. Both must agree with the float64 arbiter, qwen3_5_numpy, or
the run fails.
"""

import argparse
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "mkmodel"))

import logits_file  # noqa: E402
import qwen3_5_numpy  # noqa: E402
import ref_mlx  # noqa: E402
import ref_transformers  # noqa: E402
from checkpoint import Checkpoint  # noqa: E402
from mkmodel import write_model  # noqa: E402
from presets import PRESETS  # noqa: E402

ROOT = os.path.join(HERE, "..", "..", "tests", "golden")
N_TOKENS = 40
N_DEFINED = 313  # ids that the tiny tokenizer knows; later rows of the embedding are padding
MIN_MARGIN = 0.05  # router logits: no routing decision of a recorded sequence is closer
TOLERANCE = 1e-4  # largest difference between implementations, in standard deviations of the logits

# Cases that are not "forty tokens, logits at all of them": (tokens, positions)
LONG = {
    "decay-extreme": (
        1000,
        (0, 62, 63, 64, 127, 128, 999),
    ),  # last positions of 1, 63, 64, 65, ... tokens
    "decay-f32": (4096, (0, 511, 1023, 2047, 3071, 4095)),
    "decay-bf16": (4096, (0, 511, 1023, 2047, 3071, 4095)),
    "decay-f16": (4096, (0, 511, 1023, 2047, 3071, 4095)),
}


def choose_ids(ck, n, seed):
    """n random ids; those at which a router nearly chose another expert are drawn again, so that
    rounding cannot change the routing. Returns ids and the arbiter's logits."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, N_DEFINED, n)
    while True:
        logits, margins = qwen3_5_numpy.forward(ck, ids)
        close = np.flatnonzero(margins < MIN_MARGIN)
        if not len(close):
            return ids, logits
        ids[close[0]] = rng.integers(0, N_DEFINED)


def distance(logits, truth):
    return np.abs(logits - truth).max() / truth.std()


def report(name, what, error):
    print(f"{name:16s} {what:12s} differs from float64 by {error:.1e}", flush=True)
    if not error < TOLERANCE:
        sys.exit(
            f"{name}: {what} is off by {error:.3g} standard deviations, expected < {TOLERANCE}"
        )


def make(name):
    spec, folder = PRESETS[name], os.path.join(ROOT, name)
    write_model(folder, spec)
    ck = Checkpoint(folder)
    n, positions = LONG.get(name, (N_TOKENS, range(N_TOKENS)))
    ids, truth = choose_ids(ck, n, spec.seed)
    logits = ref_transformers.forward(ck, ids)
    report(name, "transformers", distance(logits, truth))
    logits_file.write(os.path.join(folder, "golden.bin"), ids, positions, logits[list(positions)])
    if spec.layout == "mlx":
        logits = ref_mlx.forward(folder, ids)
        report(name, "mlx-lm", distance(logits, truth))
        positions = range(3, N_TOKENS, 4)
        logits_file.write(os.path.join(folder, "golden_mlx.bin"), ids, positions, logits[positions])


def check(name):
    """The recorded logits against the arbiter on the recorded model."""
    folder = os.path.join(ROOT, name)
    for file in ("golden.bin", "golden_mlx.bin"):
        path = os.path.join(folder, file)
        if os.path.exists(path):
            ids, positions, logits = logits_file.read(path)
            truth, _ = qwen3_5_numpy.forward(Checkpoint(folder), ids)
            report(name, file, distance(logits, truth[positions]))


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("names", nargs="*", help="cases (default: all)")
    p.add_argument("--check", action="store_true")
    a = p.parse_args()
    unknown = set(a.names) - set(PRESETS)
    if unknown:
        p.error(f"no case named {', '.join(sorted(unknown))}; there are {', '.join(PRESETS)}")
    for name in a.names or PRESETS:
        check(name) if a.check else make(name)


if __name__ == "__main__":
    main()
