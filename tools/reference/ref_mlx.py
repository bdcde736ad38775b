"""The packed checkpoint itself through mlx-lm, on the CPU, in float32.

mlx-lm computes in the type of the scales. These are widened to float32 after loading, which is
exact, so that what remains is the same function of the same stored numbers.
"""

import sys
from pathlib import Path

import mlx.core as mx
import numpy as np
from mlx_lm.utils import load_model


def forward(folder, ids):
    """Logits [T, V] float32."""
    mx.set_default_device(mx.cpu)
    model, _ = load_model(Path(folder))
    model.set_dtype(mx.float32)
    logits = model(mx.array([[int(t) for t in ids]]))[0]
    if logits.dtype != mx.float32:
        sys.exit(f"{folder}: mlx-lm computed in {logits.dtype}, expected float32")
    return np.array(logits)
