"""Checkpoints of real dimensions with random weights, streamed to disk: for measuring speed, never
holding more than one chunk in memory. MLX layout; what the text says is noise.

A quantised weight is uniform random codes with a scale that makes the matrix keep the size of its
input, so activations, router and logits stay in the range of a trained model.
"""

import os
from math import prod

import numpy as np

from floats import encode
from layout import full_name
from shards import WIDTH, Tensor, write_checkpoint
from side_files import write_side_files
from spec import ROUTER_8BIT, Spec
from weights import Entry

CHUNK = 4 << 20
SHARD_BYTES = 5 << 30
REAL_MERGES = 248044 - 256

MODELS = {
    "35b": dict(
        hidden=2048,
        layers=40,
        heads=16,
        key_heads=16,
        value_heads=32,
        expert_size=512,
        shared_size=512,
    ),
    "122b": dict(
        hidden=3072,
        layers=48,
        heads=32,
        key_heads=16,
        value_heads=64,
        expert_size=1024,
        shared_size=1024,
    ),
}


def generator(seed):
    return np.random.Generator(np.random.SFC64(seed))


def spec(model, layers=None, experts=None):
    sizes = dict(MODELS[model])
    sizes["layers"] = layers or sizes["layers"]
    return Spec(
        kv_heads=2,
        head_dim=256,
        key_dim=128,
        value_dim=128,
        experts=experts or 256,
        top_k=8,
        vocab=248320,
        overrides=ROUTER_8BIT,
        **sizes,
    )


class Stream:
    """Tensors whose bytes are drawn when they are written. Each has its own generator, seeded with
    the model's seed and a number that counts generators."""

    def __init__(self, s):
        self.s, self.n = s, 0

    def seed(self):
        self.n += 1
        return (self.s.seed, self.n)

    def floats(self, name, shape, draw, dtype=None):
        dtype, seed = dtype or self.s.float_dtype, self.seed()
        return Tensor(name, dtype, shape, lambda: (encode(draw(generator(seed), shape), dtype),))

    def codes(self, name, shape):
        n, seed = prod(shape) * WIDTH["U32"], self.seed()

        def chunks():
            rng = generator(seed)
            return (rng.bytes(min(CHUNK, n - at)) for at in range(0, n, CHUNK))

        return Tensor(name, "U32", shape, chunks)

    def scales(self, name, shape, seed, typical):
        """Values of random sign, 0.8 to 1.2 times `typical`. Scales and biases of a module share a
        seed, which makes each bias the same multiple of its scale."""

        def chunks():
            rng, n = generator(seed), prod(shape)
            for at in range(0, n, CHUNK):
                x = rng.uniform(-0.4, 0.4, min(CHUNK, n - at))
                yield encode((x + np.copysign(0.8, x)) * typical, self.s.scale_dtype)

        return Tensor(name, self.s.scale_dtype, shape, chunks)

    def linear(self, path, *shape, gain=1.0):
        name, encoding = full_name(self.s, path), self.s.encoding(path)
        cols = shape[-1]
        if encoding is None:
            sigma = gain / np.sqrt(cols)
            yield self.floats(
                name + ".weight", shape, lambda rng, k: rng.standard_normal(k, np.float32) * sigma
            )
            return
        bits, group = encoding
        # uniform codes have deviation 2^bits / sqrt(12)
        typical = gain * np.sqrt(12) / ((1 << bits) * np.sqrt(cols))
        per_group = (*shape[:-1], cols // group)
        middle, seed = ((1 << bits) - 1) / 2, self.seed()
        yield self.codes(name + ".weight", (*shape[:-1], cols * bits // 32))
        yield self.scales(name + ".scales", per_group, seed, typical)
        yield self.scales(name + ".biases", per_group, seed, -middle * typical)

    def norm(self, path, n):
        yield self.floats(
            full_name(self.s, path) + ".weight",
            (n,),
            lambda rng, k: 1 + 0.1 * rng.standard_normal(k),
        )

    def uniform(self, path, n, low, high, dtype):
        yield self.floats(
            full_name(self.s, path), (n,), lambda rng, k: rng.uniform(low, high, k), dtype
        )


def attention(st, s, p):
    yield from st.linear(p + "q_proj", s.heads * 2 * s.head_dim, s.hidden)
    yield from st.linear(p + "k_proj", s.kv_heads * s.head_dim, s.hidden)
    yield from st.linear(p + "v_proj", s.kv_heads * s.head_dim, s.hidden)
    yield from st.linear(p + "o_proj", s.hidden, s.heads * s.head_dim)
    yield from st.norm(p + "q_norm", s.head_dim)
    yield from st.norm(p + "k_norm", s.head_dim)


def delta_net(st, s, p):
    values, conv = s.value_heads * s.value_dim, (s.conv_dim, s.taps, 1)
    yield from st.linear(p + "in_proj_qkv", s.conv_dim, s.hidden)
    yield from st.linear(p + "in_proj_z", values, s.hidden)
    yield from st.linear(p + "in_proj_b", s.value_heads, s.hidden)
    yield from st.linear(p + "in_proj_a", s.value_heads, s.hidden)
    yield st.floats(
        full_name(s, p + "conv1d") + ".weight", conv, lambda rng, k: rng.standard_normal(k) * 0.7
    )
    yield from st.uniform(p + "A_log", s.value_heads, -0.7, 1.4, s.decay_dtype)
    yield from st.uniform(p + "dt_bias", s.value_heads, -5.0, -1.0, s.dt_bias_dtype)
    yield from st.norm(p + "norm", s.value_dim)
    yield from st.linear(p + "out_proj", s.hidden, values)


def mixture(st, s, p):
    yield from st.linear(p + "gate", s.experts, s.hidden, gain=2.0)
    for name, rows, cols in (
        ("gate_proj", s.expert_size, s.hidden),
        ("up_proj", s.expert_size, s.hidden),
        ("down_proj", s.hidden, s.expert_size),
    ):
        yield from st.linear(f"{p}switch_mlp.{name}", s.experts, rows, cols)
    yield from st.linear(p + "shared_expert.gate_proj", s.shared_size, s.hidden)
    yield from st.linear(p + "shared_expert.up_proj", s.shared_size, s.hidden)
    yield from st.linear(p + "shared_expert.down_proj", s.hidden, s.shared_size)
    yield from st.linear(p + "shared_expert_gate", 1, s.hidden)


def tensors(s):
    st = Stream(s)
    yield from st.linear("embed_tokens", s.vocab, s.hidden, gain=np.sqrt(s.hidden))
    for i in range(s.layers):
        p = f"layers.{i}."
        yield from st.norm(p + "input_layernorm", s.hidden)
        yield from (
            attention(st, s, p + "self_attn.")
            if s.is_full(i)
            else delta_net(st, s, p + "linear_attn.")
        )
        yield from st.norm(p + "post_attention_layernorm", s.hidden)
        yield from mixture(st, s, p + "mlp.")
    yield from st.norm("norm", s.hidden)
    yield from st.linear("lm_head", s.vocab, s.hidden, gain=3.0)


def write_model(folder, s):
    if s.layout != "mlx":
        raise ValueError(f"layout {s.layout!r}: real dimensions are written as mlx only")
    os.makedirs(folder, exist_ok=True)
    found = list(tensors(s))
    prefix = len(full_name(s, ""))
    modules = [
        Entry(
            "lm_head" if "lm_head" in t.name else t.name[prefix:].removesuffix(".weight"),
            "linear",
            None,
        )
        for t in found
        if t.dtype == "U32"
    ]
    write_side_files(folder, s, modules, REAL_MERGES)
    total = sum(t.n_bytes for t in found)
    write_checkpoint(folder, found, max(1, -(-total // SHARD_BYTES)), s.odd_start)
