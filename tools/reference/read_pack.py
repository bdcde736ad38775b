#!/usr/bin/env python3
"""Reads a pack as docs/formats/pack.md describes it, apart from the C code.

    read_pack.py FILE                 checks tables and hashes, prints what is in it
    read_pack.py FILE --against DIR   also compares every weight with the folder it was made from

Needs nothing but Python. Hashes come from the xxhash library through ctypes; where that is missing,
a line says that they were not checked. --against knows MLX folders (mlp.switch_mlp) and original ones
(mlp.experts.gate_up_proj, mlp.experts.N).
"""

import argparse
import ctypes
import ctypes.util
import json
import mmap
import os
import struct
import sys

NO_LAYER = 0xFFFFFFFF
TEXTS = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
DTYPE = {1: ("F32", 4), 2: ("F16", 2), 3: ("BF16", 2), 4: ("U32", 4)}
MODEL = ("embed_tokens", "norm", "lm_head")
LAYER = (
    "input_layernorm post_attention_layernorm self_attn.q_proj self_attn.k_proj self_attn.v_proj self_attn.o_proj "
    "self_attn.q_norm self_attn.k_norm linear_attn.in_proj_qkv linear_attn.in_proj_z linear_attn.in_proj_b "
    "linear_attn.in_proj_a linear_attn.conv1d linear_attn.A_log linear_attn.dt_bias linear_attn.norm "
    "linear_attn.out_proj mlp.gate_proj mlp.up_proj mlp.down_proj mlp.gate mlp.shared_expert.gate_proj "
    "mlp.shared_expert.up_proj mlp.shared_expert.down_proj mlp.shared_expert_gate"
).split()
PROJ = ("gate_proj", "up_proj", "down_proj")
PARTS = ("weight", "scales", "biases")


def need(condition, message):
    if not condition:
        sys.exit(f"read_pack: {message}")


def load_hash():
    path = ctypes.util.find_library("xxhash")
    if not path:
        return None
    function = ctypes.CDLL(path).XXH3_64bits
    function.restype = ctypes.c_uint64
    function.argtypes = (ctypes.c_char_p, ctypes.c_size_t)
    return lambda data: function(bytes(data), len(data))


class Encoding:
    SIZE = 16

    def __init__(self, data):
        self.dtype, self.scale, self.bits, self.group, zero, self.rows, self.cols = struct.unpack("<BBHHHII", data)
        need(zero == 0 and self.dtype in DTYPE, "an encoding is unknown")
        need((self.bits == 0) == (self.dtype != 4), "an encoding contradicts itself")

    def part_bytes(self):
        if not self.bits:
            return [self.rows * self.cols * DTYPE[self.dtype][1]]
        scales = self.rows * self.cols // self.group * DTYPE[self.scale][1]
        return [self.rows * self.cols * self.bits // 8, scales, scales]


def record(encodings):
    """Offsets and lengths of the parts, and the length of the record."""
    at, out = 0, []
    for e in encodings:
        out.append([])
        for n in e.part_bytes():
            at = (at + 63) // 64 * 64
            out[-1].append((at, n))
            at += n
    return out, at


class Pack:
    def __init__(self, path):
        with open(path, "rb") as f:
            self.data = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
        self.hash = load_hash()
        self.hashed = 0
        self.end = 0
        self.read_head()
        self.read_index()

    def check_hash(self, what, off, n, expected):
        if self.hash:
            need(self.hash(self.data[off : off + n]) == expected, f"{what}: the hash is wrong")
            self.hashed += n

    def read_head(self):
        need(len(self.data) >= 64, "too short")
        magic, version, zero, size, self.index_off, self.index_bytes, index_hash, zero2, own = struct.unpack(
            "<8sIIQQQQQQ", self.data[:64]
        )
        need(magic == b"SLCPACK\n", "not a pack")
        need(version == 1 and zero == 0 and zero2 == 0, "an unknown version")
        need(size == len(self.data) and size % 4096 == 0, f"the file has {len(self.data)} bytes, the head says {size}")
        need(self.index_off == 64 and 64 + self.index_bytes <= size, "the index is outside the file")
        self.check_hash("head", 0, 56, own)
        self.check_hash("index", 64, self.index_bytes, index_hash)

    def take(self, form):
        n = struct.calcsize(form)
        need(self.at + n <= self.index_off + self.index_bytes, "the index is too short")
        values = struct.unpack_from(form, self.data, self.at)
        self.at += n
        return values

    def take_encoding(self):
        need(self.at + 16 <= self.index_off + self.index_bytes, "the index is too short")
        self.at += 16
        return Encoding(self.data[self.at - 16 : self.at])

    def claim(self, what, off, n, align):
        need(off % align == 0 and off >= self.end and off + n <= len(self.data), f"{what}: a wrong range")
        self.end = off + n

    def read_index(self):
        self.at = self.index_off
        self.end = self.index_off + self.index_bytes
        self.n_layers, self.n_experts, self.flags, n_weights, n_sources, zero, self.ignored = self.take("<IIIIIIQ")
        need(self.flags <= 3 and zero == 0, "unknown flags")
        self.texts = {}
        for name in TEXTS:
            off, n, own = self.take("<QQQ")
            if off:
                self.claim(name, off, n, 64)
                self.check_hash(name, off, n, own)
                self.texts[name] = self.data[off : off + n]
        self.sources = []
        for _ in range(n_sources):
            size, seconds, ns, n_name, header, zero = self.take("<QqIIQQ")
            need(zero == 0 and ns < 10**9, "a damaged source")
            (name,) = self.take(f"<{n_name}s")
            self.sources.append((name.decode(), size, seconds, header))
        self.weights = {}
        for _ in range(n_weights):
            layer, ident = self.take("<II")
            e = self.take_encoding()
            off, n, own = self.take("<QQQ")
            name = MODEL[ident] if layer == NO_LAYER else f"layers.{layer}.{LAYER[ident]}"
            parts, size = record([e])
            need(size == n and name not in self.weights, f"{name}: wrong length, or twice")
            self.claim(name, off, n, 64)
            self.check_hash(name, off, n, own)
            self.weights[name] = [self.data[off + a : off + a + b] for a, b in parts[0]]
        self.layers = []
        for layer in range(self.n_layers if self.n_experts else 0):
            encodings = [self.take_encoding() for _ in PROJ]
            off, n, step = self.take("<QQQ")
            hashes = self.take(f"<{self.n_experts}Q")
            parts, size = record(encodings)
            need(size == n and step >= n and step % 4096 == 0, f"layer {layer}: wrong length")
            self.claim(f"layer {layer}", off, step * self.n_experts, 4096)
            for e, own in enumerate(hashes):
                self.check_hash(f"expert {e} of layer {layer}", off + e * step, n, own)
            self.layers.append((off, step, parts))
        need(self.at == self.index_off + self.index_bytes, "the index is longer than its tables")

    def expert(self, layer, expert):
        """Per projection the bytes of its parts."""
        off, step, parts = self.layers[layer]
        start = off + expert * step
        return [[self.data[start + a : start + a + n] for a, n in proj] for proj in parts]


class Folder:
    """Tensors of a checkpoint folder by name without prefix."""

    PREFIXES = ("language_model.model.", "model.language_model.", "language_model.", "model.")

    def __init__(self, path):
        self.path = path
        index = os.path.join(path, "model.safetensors.index.json")
        files = ["model.safetensors"]
        if os.path.exists(index):
            with open(index, encoding="utf-8") as f:
                files = sorted(set(json.load(f)["weight_map"].values()))
        self.tensors = {}
        for name in files:
            self.add(os.path.join(path, name))

    def add(self, path):
        with open(path, "rb") as f:
            data = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
        n = int.from_bytes(data[:8], "little")
        for name, t in json.loads(data[8 : 8 + n]).items():
            if name == "__metadata__":
                continue
            prefix = next((p for p in self.PREFIXES if name.startswith(p)), "")
            begin, end = (8 + n + o for o in t["data_offsets"])
            self.tensors[name[len(prefix) :]] = data[begin:end]

    def module(self, name):
        found = [self.tensors.get(f"{name}.{part}") for part in PARTS]
        if found[0] is None:
            found[0] = self.tensors.get(name)
        need(found[0] is not None, f"{self.path}: no tensor for {name}")
        return [t for t in found if t is not None]

    def expert(self, layer, expert, n_experts):
        at = f"layers.{layer}.mlp."
        if f"{at}switch_mlp.gate_proj.weight" in self.tensors:
            return [[self.slice(t, expert, n_experts) for t in self.module(f"{at}switch_mlp.{p}")] for p in PROJ]
        if f"{at}experts.{expert}.gate_proj.weight" in self.tensors:
            return [self.module(f"{at}experts.{expert}.{p}") for p in PROJ]
        both = [self.slice(t, expert, n_experts) for t in self.module(f"{at}experts.gate_up_proj")]
        down = [self.slice(t, expert, n_experts) for t in self.module(f"{at}experts.down_proj")]
        return [[t[: len(t) // 2] for t in both], [t[len(t) // 2 :] for t in both], down]

    @staticmethod
    def slice(tensor, i, n):
        step = len(tensor) // n
        return tensor[i * step : (i + 1) * step]


def compare(pack, folder):
    for name, text in pack.texts.items():
        with open(os.path.join(folder.path, name), "rb") as f:
            need(f.read() == text, f"{name} differs from the folder's")
    for name, parts in pack.weights.items():
        need(folder.module(name) == parts, f"{name} differs from the folder's")
    for layer in range(len(pack.layers)):
        for e in range(pack.n_experts):
            need(
                folder.expert(layer, e, pack.n_experts) == pack.expert(layer, e),
                f"expert {e} of layer {layer} differs from the folder's",
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pack")
    parser.add_argument("--against", metavar="DIR")
    options = parser.parse_args()
    pack = Pack(options.pack)
    print(
        f"{len(pack.data)} bytes, {pack.n_layers} layers of {pack.n_experts} experts, {len(pack.weights)} weights, "
        f"{len(pack.texts)} texts"
    )
    for name, size, _, header in pack.sources:
        print(f"made from {name}, {size} bytes, header {header:016x}")
    print(f"{pack.hashed} bytes have the right hash" if pack.hash else "hashes not checked: no xxhash library")
    if options.against:
        compare(pack, Folder(options.against))
        print("equal to the folder")


if __name__ == "__main__":
    main()
