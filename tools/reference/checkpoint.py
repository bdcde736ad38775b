"""Reads a Qwen3.5 checkpoint folder into plain arrays, whatever its layout.

Written apart from tools/mkmodel, so that a mistake in the writer is not repeated in the reader.
Weights come out by the path of the original model without prefix ("layers.0.mlp.gate"), as float64,
dequantised, norms as the effective multiplier.
"""

import json
import os

import numpy as np

PREFIXES = ("language_model.model.", "model.language_model.", "model.", "")
HEAD_PREFIXES = ("language_model.", "model.language_model.", "")
NUMPY = {"F32": "<f4", "F16": "<f2", "U32": "<u4", "U8": "u1", "BF16": "<u2"}
SHIFTED = ("input_layernorm", "post_attention_layernorm", "q_norm", "k_norm")


class Shard:
    def __init__(self, path):
        self.map = np.memmap(path, np.uint8, "r")
        n = int.from_bytes(self.map[:8].tobytes(), "little")
        self.start = 8 + n
        self.header = json.loads(self.map[8 : self.start].tobytes())
        self.header.pop("__metadata__", None)

    def read(self, name):
        """(dtype, array) with bf16 widened to float32."""
        h = self.header[name]
        begin, end = (self.start + o for o in h["data_offsets"])
        a = np.frombuffer(self.map[begin:end].tobytes(), NUMPY[h["dtype"]]).reshape(h["shape"])
        if h["dtype"] == "BF16":
            a = (a.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return h["dtype"], a


def unpack(words, bits):
    """uint32 [..., n] -> codes [..., n*32/bits]: element i starts at bit i*bits of its row."""
    stream = np.unpackbits(np.ascontiguousarray(words).view(np.uint8), axis=-1, bitorder="little")
    stream = stream.reshape(*words.shape[:-1], -1, bits)
    return stream @ (1 << np.arange(bits, dtype=np.uint32))


class Checkpoint:
    def __init__(self, folder):
        self.folder = folder
        self.top = self._json("config.json")
        self.config = dict(self.top.get("text_config", self.top))
        self.config.setdefault("tie_word_embeddings", self.top.get("tie_word_embeddings", False))
        index = os.path.join(folder, "model.safetensors.index.json")
        files = ["model.safetensors"]
        if os.path.exists(index):
            files = sorted(set(self._json("model.safetensors.index.json")["weight_map"].values()))
        self.where = {}
        for f in files:
            shard = Shard(os.path.join(folder, f))
            self.where.update(dict.fromkeys(shard.header, shard))
        conv = next(n for n in self.where if n.endswith("linear_attn.conv1d.weight"))
        self.raw = self.where[conv].header[conv]["shape"][-1] != 1

    def _json(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8") as f:
            return json.load(f)

    @property
    def is_moe(self):
        return bool(self.config.get("num_experts"))

    @property
    def tied(self):
        return bool(self.config["tie_word_embeddings"])

    def is_full(self, layer):
        types = self.config.get("layer_types")
        if types:
            return types[layer] == "full_attention"
        return (layer + 1) % self.config.get("full_attention_interval", 4) == 0

    def find(self, path):
        """The name in the files, or None."""
        prefixes = HEAD_PREFIXES if path.startswith("lm_head") else PREFIXES
        return next((p + path for p in prefixes if p + path in self.where), None)

    def read(self, path):
        name = self.find(path)
        if name is None:
            raise KeyError(f"{self.folder}: no tensor {path} under any prefix")
        return self.where[name].read(name)

    def vector(self, path):
        """A tensor without suffix, never quantised: A_log, dt_bias, fused experts."""
        return self.read(path)[1].astype(np.float64)

    def linear(self, module):
        """A weight [..., out, in], dequantised if it has scales."""
        dtype, w = self.read(module + ".weight")
        if dtype != "U32":
            return w.astype(np.float64)
        scales = self.read(module + ".scales")[1].astype(np.float64)
        biases = self.read(module + ".biases")[1].astype(np.float64)
        cols = self.columns(module, w, scales)
        codes = unpack(w, 32 * w.shape[-1] // cols)
        grouped = codes.reshape(*scales.shape, -1)
        return (grouped * scales[..., None] + biases[..., None]).reshape(*w.shape[:-1], cols)

    def columns(self, module, words, scales):
        """Bits and group are both unknown; the architecture says how long a row is."""
        c = self.config
        leaf = module.rsplit(".", 1)[-1]
        if leaf == "o_proj":
            return c["num_attention_heads"] * c["head_dim"]
        if leaf == "out_proj":
            return c["linear_num_value_heads"] * c["linear_value_head_dim"]
        if leaf == "down_proj":
            if "shared_expert" in module:
                return c["shared_expert_intermediate_size"]
            return c["moe_intermediate_size"] if self.is_moe else c["intermediate_size"]
        return c["hidden_size"]

    def norm(self, module):
        """The effective multiplier of an RMS norm."""
        w = self.linear(module)
        leaf = module.rsplit(".", 1)[-1]
        shifted = leaf in SHIFTED or module == "norm"
        return w + 1 if self.raw and shifted else w

    def conv(self, layer):
        w = self.linear(f"layers.{layer}.linear_attn.conv1d")
        return w.reshape(w.shape[0], -1)

    def experts(self, layer):
        """gate [E, I, H], up [E, I, H], down [E, H, I] of a layer, from any of the layouts."""
        p = f"layers.{layer}.mlp."
        if self.find(p + "switch_mlp.gate_proj.weight"):
            return tuple(self.linear(f"{p}switch_mlp.{x}_proj") for x in ("gate", "up", "down"))
        if self.find(p + "experts.gate_up_proj"):
            gate, up = np.split(self.vector(p + "experts.gate_up_proj"), 2, axis=1)
            return gate, up, self.vector(p + "experts.down_proj")
        return tuple(
            np.stack(
                [self.linear(f"{p}experts.{e}.{x}_proj") for e in range(self.config["num_experts"])]
            )
            for x in ("gate", "up", "down")
        )
