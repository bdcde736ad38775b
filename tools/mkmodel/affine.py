"""MLX affine quantisation, the writing half: float rows to packed codes, scales and biases.

Rule (one group of a row, fp32): the end of the value range with the larger magnitude is kept exact,
zero is made representable, and the scale is negative when the positive end dominates. Codes are
computed with the fp32 scale and bias; rounding these to the stored type comes last.
"""

import numpy as np

BITS = (2, 3, 4, 5, 6, 8)
GROUPS = (32, 64, 128)


def quantise(w, bits, group):
    """w [..., cols] float32 -> codes uint8 likewise, scale and bias float32 [..., cols/group]."""
    if bits not in BITS or group not in GROUPS:
        raise ValueError(f"bits {bits}, group {group}: expected bits in {BITS}, group in {GROUPS}")
    if w.shape[-1] % group:
        raise ValueError(f"row of {w.shape[-1]} values: expected a multiple of the group, {group}")
    g = np.ascontiguousarray(w, np.float32).reshape(*w.shape[:-1], -1, group)
    n = np.float32((1 << bits) - 1)
    lo, hi = g.min(-1), g.max(-1)
    low_end = np.abs(lo) > np.abs(hi)
    scale = np.maximum((hi - lo) / n, np.float32(1e-7))
    scale = np.where(low_end, scale, -scale)
    edge = np.where(low_end, lo, hi)
    q0 = np.rint(edge / scale)
    reachable = q0 != 0
    scale = np.where(reachable, edge / np.where(reachable, q0, np.float32(1)), scale)
    bias = np.where(reachable, edge, np.float32(0))
    codes = np.clip(np.rint((g - bias[..., None]) / scale[..., None]), 0, n)
    return (
        codes.astype(np.uint8).reshape(w.shape),
        scale.astype(np.float32),
        bias.astype(np.float32),
    )


def pack(codes, bits):
    """codes uint8 [..., cols] -> uint32 [..., cols*bits/32]: bit streams, low bits first."""
    bit = (codes[..., None] >> np.arange(bits, dtype=np.uint8)) & np.uint8(1)
    stream = bit.reshape(*codes.shape[:-1], -1)
    return np.packbits(stream, axis=-1, bitorder="little").view("<u4")
