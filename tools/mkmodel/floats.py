"""Stored float types: float32 arrays to the bytes of F32, F16 or BF16."""

import numpy as np

NAMES = ("F32", "F16", "BF16")


def bf16_bits(x):
    """float32 to the 16 bits of bfloat16, rounded to nearest even. Finite input."""
    u = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return (
        (u + np.uint32(0x7FFF) + ((u >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    ).astype(np.uint16)


def encode(x, dtype):
    """The little-endian bytes of array x stored as `dtype`."""
    if dtype == "F32":
        return np.ascontiguousarray(x, "<f4").tobytes()
    if dtype == "F16":
        return np.ascontiguousarray(x, "<f2").tobytes()
    if dtype == "BF16":
        return bf16_bits(x).astype("<u2").tobytes()
    raise ValueError(f"no float type named {dtype!r}: expected one of {NAMES}")
