"""Entries of a model to the tensors of a checkpoint file: names, shapes, folding, quantisation.

mlx         stacked switch_mlp.{gate,up,down}_proj, norms folded, conv [C, taps, 1]
hf          fused experts.gate_up_proj and experts.down_proj, norms raw (w - 1), conv [C, 1, taps]
per-expert  experts.{e}.{gate,up,down}_proj, otherwise as hf
"""

import numpy as np

from affine import pack, quantise
from floats import encode
from shards import Tensor
from spec import PREFIXES


def full_name(s, path):
    if path == "lm_head":
        return PREFIXES[s.prefix] + path
    return s.prefix + path


def float_tensor(name, dtype, w):
    return Tensor(name, dtype, w.shape, encode(w, dtype))


def linear_tensors(s, path, name, w):
    """A linear module (any leading dimensions): weight alone, or weight, scales and biases.
    The encoding belongs to `path`, the name in the file may differ from it."""
    encoding = s.encoding(path)
    if encoding is None:
        return [float_tensor(name + ".weight", s.float_dtype, w)]
    bits, group = encoding
    codes, scales, biases = quantise(w, bits, group)
    words = pack(codes, bits)
    return [
        Tensor(name + ".weight", "U32", words.shape, words.tobytes()),
        float_tensor(name + ".scales", s.scale_dtype, scales),
        float_tensor(name + ".biases", s.scale_dtype, biases),
    ]


def expert_tensors(s, group):
    """The three stacked projections of one layer, in the layout's own arrangement."""
    gate, up, down = group
    base = full_name(s, gate.path.rsplit(".", 1)[0])  # ...mlp.switch_mlp
    if s.layout == "mlx":
        return [t for e in group for t in linear_tensors(s, e.path, full_name(s, e.path), e.w)]
    base = base.removesuffix("switch_mlp") + "experts"
    if s.layout == "hf":
        fused = np.concatenate((gate.w, up.w), axis=1)
        return [
            float_tensor(base + ".gate_up_proj", s.float_dtype, fused),
            float_tensor(base + ".down_proj", s.float_dtype, down.w),
        ]
    return [
        t
        for x in range(s.experts)
        for e in group
        for t in linear_tensors(s, e.path, f"{base}.{x}.{e.path.rsplit('.', 1)[1]}", e.w[x])
    ]


def small_tensor(s, e):
    """Everything that is never quantised."""
    name = full_name(s, e.path)
    if e.kind == "a_log":
        return float_tensor(name, s.decay_dtype, e.w)
    if e.kind == "dt_bias":
        return float_tensor(name, s.dt_bias_dtype, e.w)
    if e.kind == "conv":
        w = e.w[:, :, None] if s.layout == "mlx" else e.w[:, None, :]
        return float_tensor(name + ".weight", s.float_dtype, w)
    raw = e.kind == "norm" and s.layout != "mlx"
    return float_tensor(name + ".weight", s.float_dtype, e.w - np.float32(1) if raw else e.w)


def side_tower_tensors(s):
    """Tensors of other towers that a text engine skips; odd lengths, to move what follows."""
    vision = "vision_tower." if s.layout == "mlx" else "model.visual."
    rng = np.random.default_rng(s.seed + 1000)
    yield Tensor(vision + "marker", "U8", (13,), rng.bytes(13))
    yield float_tensor(vision + "blocks.0.norm1.weight", "BF16", rng.standard_normal(7))
    yield float_tensor("mtp.fc.weight", "BF16", rng.standard_normal((5, 3)))
    yield float_tensor("mtp.layers.0.input_layernorm.weight", "BF16", rng.standard_normal(s.hidden))


def to_tensors(s, entries):
    if s.layout == "hf" and s.bits and s.experts:
        raise ValueError("fused experts have no quantised form: use layout mlx or per-expert")
    tensors = list(side_tower_tensors(s)) if s.side_towers else []
    stacked = []
    for e in entries:
        if e.kind == "experts":
            stacked.append(e)
            if len(stacked) == 3:
                tensors += expert_tensors(s, stacked)
                stacked = []
        elif e.kind == "linear":
            tensors += linear_tensors(s, e.path, full_name(s, e.path), e.w)
        else:
            tensors.append(small_tensor(s, e))
    return tensors


def quantised_modules(s, entries):
    """{module name in the file: (bits, group) or None} of everything that could be quantised."""
    found = {}
    for e in entries:
        if e.kind == "linear" or (e.kind == "experts" and s.layout == "mlx"):
            found[full_name(s, e.path)] = s.encoding(e.path)
        elif e.kind == "experts" and s.layout == "per-expert":
            base, leaf = e.path.rsplit(".switch_mlp.", 1)
            for x in range(s.experts):
                found[full_name(s, f"{base}.experts.{x}.{leaf}")] = s.encoding(e.path)
    return found
