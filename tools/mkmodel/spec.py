"""What a generated model is: sizes, layout, encoding. One frozen record, checked at birth."""

import re
from dataclasses import dataclass
from typing import Optional

from affine import BITS, GROUPS
from floats import NAMES

LAYOUTS = ("mlx", "hf", "per-expert")
PREFIXES = {
    # name: (in front of "layers.0...", in front of "lm_head")
    "language_model.model.": "language_model.",
    "model.language_model.": "",
    "model.": "",
    "": "",
}
ROUTER_8BIT = ((r"mlp\.(gate|shared_expert_gate)$", 8, 64),)


@dataclass(frozen=True)
class Spec:
    # transformer
    hidden: int = 64
    layers: int = 4
    interval: int = 4  # every interval-th layer is full attention...
    layer_types: str = ""  # ...unless given: one letter a layer, "l" linear or "f" full
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 16
    rotary: float = 0.25  # part of a head that RoPE turns
    theta: float = 1e7
    # Gated DeltaNet
    key_heads: int = 2
    value_heads: int = 4
    key_dim: int = 16
    value_dim: int = 16
    taps: int = 4
    # feed-forward; experts 0: dense, with ffn
    experts: int = 8
    top_k: int = 2
    expert_size: int = 64
    shared_size: int = 64
    ffn: int = 0
    vocab: int = 320
    tied: bool = False
    # encoding; bits 0: float everywhere
    bits: int = 4
    group: int = 64
    overrides: tuple = ()  # (regex on the module path, bits, group); bits 0: left float
    scale_dtype: str = "BF16"
    float_dtype: str = "BF16"
    decay_dtype: str = "F32"  # A_log
    dt_dtype: str = ""  # dt_bias; empty: as decay_dtype
    # files
    layout: str = "mlx"
    prefix: str = "language_model.model."
    nested: bool = True
    shards: int = 1
    odd_start: bool = False  # data section at an odd file offset
    side_towers: bool = False  # vision and mtp tensors that a text engine must skip
    # character
    decay: str = "usual"  # "usual", "slow" (long memory) or "extreme" (g about 1e-12)
    seed: int = 1

    def __post_init__(self):
        for _, bits, group in ((None, self.bits, self.group), *self.overrides):
            if bits and (bits not in BITS or group not in GROUPS):
                raise ValueError(
                    f"bits {bits}, group {group}: expected bits in {BITS}, group in {GROUPS}"
                )
        for dtype in (self.scale_dtype, self.float_dtype, self.decay_dtype, self.dt_bias_dtype):
            if dtype not in NAMES:
                raise ValueError(f"dtype {dtype}: expected one of {NAMES}")
        if self.layout not in LAYOUTS or self.prefix not in PREFIXES:
            raise ValueError(f"layout {self.layout!r}, prefix {self.prefix!r}: unknown")
        if self.value_heads % self.key_heads or self.heads % self.kv_heads:
            raise ValueError("value_heads must be a multiple of key_heads, heads of kv_heads")
        if self.layer_types and len(self.layer_types) != self.layers:
            raise ValueError(f"{len(self.layer_types)} layer types for {self.layers} layers")
        if bool(self.experts) == bool(self.ffn):
            raise ValueError("give experts (mixture) or ffn (dense), not both")

    @property
    def dt_bias_dtype(self):
        return self.dt_dtype or self.decay_dtype

    @property
    def conv_dim(self):
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim

    def is_full(self, layer):
        if self.layer_types:
            return self.layer_types[layer] == "f"
        return (layer + 1) % self.interval == 0

    def encoding(self, module) -> Optional[tuple]:
        """(bits, group) of a linear module, None when it stays float. The last override that
        matches wins."""
        found = (self.bits, self.group)
        for pattern, bits, group in self.overrides:
            if re.search(pattern, module):
                found = (bits, group)
        return found if found[0] else None
