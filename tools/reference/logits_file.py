"""The golden file: token ids and the logits that a reference computed for them.

Little-endian, no padding:
  8 bytes   "SLCGOLD1"
  u32       n_tokens, n_vocab, n_positions, 0
  i32       ids[n_tokens]
  u32       positions[n_positions]    ascending; the logits after reading ids[0..position]
  f32       logits[n_positions][n_vocab]
"""

import numpy as np

MAGIC = b"SLCGOLD1"


def write(path, ids, positions, logits):
    """logits [n_positions, n_vocab]"""
    if logits.shape[0] != len(positions) or not np.isfinite(logits).all():
        raise ValueError(
            f"{path}: {logits.shape[0]} rows for {len(positions)} positions, or values not finite"
        )
    with open(path, "wb") as f:
        f.write(MAGIC)
        f.write(np.array([len(ids), logits.shape[1], len(positions), 0], "<u4").tobytes())
        f.write(np.array(ids, "<i4").tobytes())
        f.write(np.array(positions, "<u4").tobytes())
        f.write(np.ascontiguousarray(logits, "<f4").tobytes())


def read(path):
    """(ids, positions, logits)"""
    with open(path, "rb") as f:
        data = f.read()
    if data[:8] != MAGIC:
        raise ValueError(f"{path}: starts with {data[:8]!r}, expected {MAGIC!r}")
    n_tokens, n_vocab, n_positions, _ = (int(x) for x in np.frombuffer(data, "<u4", 4, 8))
    ids = np.frombuffer(data, "<i4", n_tokens, 24)
    positions = np.frombuffer(data, "<u4", n_positions, 24 + 4 * n_tokens)
    logits = np.frombuffer(data, "<f4", n_positions * n_vocab, 24 + 4 * (n_tokens + n_positions))
    return ids, positions, logits.reshape(n_positions, n_vocab)
