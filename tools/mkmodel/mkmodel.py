#!/usr/bin/env python3
"""Makes tiny Qwen3.5 models with random weights, in any layout and encoding, for tests. Checkpoints
of real dimensions are made by `sluice synth`.

  mkmodel.py --preset moe-q4g64 OUT                    a named tiny model
  mkmodel.py --preset moe-q4g64 --set bits=6 OUT       the same with fields of spec.Spec changed
  mkmodel.py --list                                    the presets
"""

import argparse
import os
import sys
from dataclasses import fields, replace

from layout import to_tensors
from presets import PRESETS
from shards import write_checkpoint
from side_files import write_side_files
from spec import Spec
from weights import generate


def write_model(folder, spec):
    os.makedirs(folder, exist_ok=True)
    entries = list(generate(spec))
    write_side_files(folder, spec, entries)
    write_checkpoint(folder, to_tensors(spec, entries), spec.shards, spec.odd_start)


def with_changes(spec, changes):
    """spec with "field=value" strings applied; values are parsed by the field's type."""
    parse = {
        int: int,
        float: float,
        str: str,
        bool: lambda v: {"true": True, "false": False}[v.lower()],
    }
    types = {f.name: f.type for f in fields(Spec)}
    values = {}
    for change in changes:
        name, equals, value = change.partition("=")
        if not equals or types.get(name) not in parse:
            settable = ", ".join(n for n, t in types.items() if t in parse)
            raise SystemExit(f"--set {change}: expected FIELD=VALUE, FIELD one of {settable}")
        values[name] = parse[types[name]](value)
    return replace(spec, **values)


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("out", nargs="?", help="folder to write")
    p.add_argument("--preset", choices=PRESETS)
    p.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="change a field of the Spec",
    )
    p.add_argument("--list", action="store_true", help="list the presets")
    a = p.parse_args()
    if a.list:
        print("\n".join(PRESETS))
        return
    if not a.out or not a.preset:
        p.error("give --preset and OUT")
    write_model(a.out, with_changes(PRESETS[a.preset], a.set))


if __name__ == "__main__":
    sys.exit(main())
