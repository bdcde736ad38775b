"""Writes safetensors files, with the freedom that test data needs: where the data section starts
and the order of the tensors.

A file is u64 header length, JSON header, data. Tensors follow each other without holes, as the
format demands, so the start of a tensor is moved by what lies before it: pad the header, or put a
tensor of odd length in front.
"""

import glob
import json
import os
from dataclasses import dataclass
from math import prod

WIDTH = {"F32": 4, "U32": 4, "F16": 2, "BF16": 2, "U8": 1}


@dataclass
class Tensor:
    name: str
    dtype: str
    shape: tuple
    data: bytes

    def __post_init__(self):
        expected = prod(self.shape) * WIDTH[self.dtype]
        if len(self.data) != expected:
            raise ValueError(
                f"{self.name}: {len(self.data)} bytes, "
                f"expected {expected} for {self.dtype} {list(self.shape)}"
            )


def write_shard(path, tensors, odd_start=False):
    """One file. odd_start: pad the header with spaces until the data begins at an odd offset,
    else at a multiple of eight."""
    header, at = {"__metadata__": {"format": "mlx"}}, 0
    for t in tensors:
        header[t.name] = {
            "dtype": t.dtype,
            "shape": list(t.shape),
            "data_offsets": [at, at + len(t.data)],
        }
        at += len(t.data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * ((1 - len(text) % 2) if odd_start else -len(text) % 8)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little"))
        f.write(text)
        for t in tensors:
            f.write(t.data)


def split_evenly(tensors, n):
    """n runs of consecutive tensors, of about equal bytes; none empty."""
    if n > len(tensors):
        raise ValueError(f"{n} shards for {len(tensors)} tensors")
    total, done, runs, run = sum(len(t.data) for t in tensors), 0, [], []
    for i, t in enumerate(tensors):
        run.append(t)
        done += len(t.data)
        must = len(tensors) - i - 1 == n - len(runs) - 1
        if len(runs) < n - 1 and (must or done >= total * (len(runs) + 1) / n):
            runs.append(run)
            run = []
    return runs + [run]


def write_checkpoint(folder, tensors, n_shards=1, odd_start=False):
    """model.safetensors, or model-0000i-of-0000n.safetensors with their index. Replaces whatever
    model files the folder holds: a leftover index would be believed."""
    for old in glob.glob(os.path.join(glob.escape(folder), "model*.safetensors*")):
        os.remove(old)
    if n_shards == 1:
        write_shard(os.path.join(folder, "model.safetensors"), tensors, odd_start)
        return
    weight_map = {}
    for i, run in enumerate(split_evenly(tensors, n_shards), 1):
        name = f"model-{i:05d}-of-{n_shards:05d}.safetensors"
        write_shard(os.path.join(folder, name), run, odd_start)
        weight_map.update({t.name: name for t in run})
    index = {
        "metadata": {"total_size": sum(len(t.data) for t in tensors)},
        "weight_map": dict(sorted(weight_map.items())),
    }
    with open(os.path.join(folder, "model.safetensors.index.json"), "w") as f:
        json.dump(index, f, indent=1)
        f.write("\n")
