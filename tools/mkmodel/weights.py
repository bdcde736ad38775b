"""Random weights of a Spec, in file-independent form: a list of entries in model order.

Scales are chosen so that a random model behaves like a trained one where it matters to a test:
activations of order one in every layer, logits with a spread of a few units, routers that clearly
prefer some experts, decays between forgetting at once and remembering for hundreds of tokens.
"""

from dataclasses import dataclass

import numpy as np


@dataclass
class Entry:
    path: str  # without prefix and suffix, "layers.0.mlp.gate"
    kind: str  # linear, experts, norm (a file may hold w - 1), plain_norm, conv, a_log or dt_bias
    w: np.ndarray  # float32; linear [out, in], experts [E, out, in], norm the effective multiplier


class Source:
    """Draws entries from one seeded stream, so the order of calls is part of the model."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def linear(self, path, out, cols, gain=1.0):
        w = self.rng.standard_normal((out, cols)) * (gain / np.sqrt(cols))
        return Entry(path, "linear", w.astype(np.float32))

    def experts(self, path, n, out, cols, gain=1.0):
        w = self.rng.standard_normal((n, out, cols)) * (gain / np.sqrt(cols))
        return Entry(path, "experts", w.astype(np.float32))

    def vector(self, path, kind, n, mean, spread):
        w = mean + spread * self.rng.standard_normal(n)
        return Entry(path, kind, w.astype(np.float32))

    def uniform(self, path, kind, n, low, high):
        return Entry(path, kind, self.rng.uniform(low, high, n).astype(np.float32))


def attention(src, s, p):
    head = s.head_dim
    yield src.linear(p + "q_proj", s.heads * 2 * head, s.hidden)
    yield src.linear(p + "k_proj", s.kv_heads * head, s.hidden)
    yield src.linear(p + "v_proj", s.kv_heads * head, s.hidden)
    yield src.linear(p + "o_proj", s.hidden, s.heads * head, 1.5)
    yield src.vector(p + "q_norm", "norm", head, 1.3, 0.2)
    yield src.vector(p + "k_norm", "norm", head, 1.3, 0.2)


def decay(src, s, p):
    """A_log and dt_bias. g = exp(-exp(A_log) * softplus(a + dt_bias)), a of order one.
    usual: g from 0.3 to 0.99. slow: hundreds to thousands of tokens to forget (see write_strength),
    and values of a size at which 16 bits round them visibly. extreme: one head keeps the usual
    decay, the next has g about 1e-12 per token, the others below what float32 holds."""
    n = s.value_heads
    if s.decay == "usual":
        yield src.uniform(p + "A_log", "a_log", n, -0.7, 1.4)
        yield src.uniform(p + "dt_bias", "dt_bias", n, -5.0, -1.0)
    elif s.decay == "slow":
        yield src.uniform(p + "A_log", "a_log", n, -7.9, -6.5)
        yield src.uniform(p + "dt_bias", "dt_bias", n, 2.0, 6.0)
    elif s.decay == "extreme":
        a_log, dt = np.full(n, 4.6, np.float32), np.full(n, 2.0, np.float32)
        a_log[0], dt[0] = 0.3, -3.0
        a_log[1], dt[1] = np.log(16.0), np.log(np.exp(27.6 / 16) - 1)
        yield Entry(p + "A_log", "a_log", a_log)
        yield Entry(p + "dt_bias", "dt_bias", dt)
    else:
        raise ValueError(f"decay {s.decay!r}: expected usual, slow or extreme")


def write_strength(src, s, p):
    """in_proj_b. The delta rule overwrites: with beta near one half, a state of dk dimensions holds
    little that is older than a few times dk tokens, whatever the decay. A slow model therefore
    writes with beta about 0.001, by a weight on the constant channel of its embedding."""
    b = src.linear(p + "in_proj_b", s.value_heads, s.hidden)
    if s.decay == "slow":
        b.w[:, 0] = -2.5
    return b


def delta_net(src, s, p):
    values = s.value_heads * s.value_dim
    yield src.linear(p + "in_proj_qkv", s.conv_dim, s.hidden)
    yield src.linear(p + "in_proj_z", values, s.hidden)
    yield write_strength(src, s, p)
    yield src.linear(p + "in_proj_a", s.value_heads, s.hidden, 0.3 if s.decay == "extreme" else 1.0)
    conv = src.linear(p + "conv1d", s.conv_dim, s.taps, 1.5)
    yield Entry(conv.path, "conv", conv.w)
    yield from decay(src, s, p)
    yield src.vector(p + "norm", "plain_norm", s.value_dim, 1.0, 0.2)
    yield src.linear(p + "out_proj", s.hidden, values, 1.5)


def feed_forward(src, p, hidden, width):
    yield src.linear(p + "gate_proj", width, hidden, 1.5)
    yield src.linear(p + "up_proj", width, hidden, 1.5)
    yield src.linear(p + "down_proj", hidden, width, 1.5)


def mixture(src, s, p):
    yield src.linear(p + "gate", s.experts, s.hidden, 2.0)
    yield src.experts(p + "switch_mlp.gate_proj", s.experts, s.expert_size, s.hidden, 1.5)
    yield src.experts(p + "switch_mlp.up_proj", s.experts, s.expert_size, s.hidden, 1.5)
    yield src.experts(p + "switch_mlp.down_proj", s.experts, s.hidden, s.expert_size, 2.0)
    yield from feed_forward(src, p + "shared_expert.", s.hidden, s.shared_size)
    yield src.linear(p + "shared_expert_gate", 1, s.hidden)


def generate(s):
    src = Source(s.seed)
    embedding = src.linear(
        "embed_tokens", s.vocab, s.hidden, np.sqrt(s.hidden) if not s.tied else 3.0
    )
    if s.decay == "slow":
        embedding.w[:, 0] = 3.0
    yield embedding
    for i in range(s.layers):
        p = f"layers.{i}."
        yield src.vector(p + "input_layernorm", "norm", s.hidden, 1.0, 0.2)
        yield from (
            attention(src, s, p + "self_attn.")
            if s.is_full(i)
            else delta_net(src, s, p + "linear_attn.")
        )
        yield src.vector(p + "post_attention_layernorm", "norm", s.hidden, 1.0, 0.2)
        yield from (
            mixture(src, s, p + "mlp.")
            if s.experts
            else feed_forward(src, p + "mlp.", s.hidden, s.ffn)
        )
    yield src.vector("norm", "norm", s.hidden, 1.0, 0.2)
    if not s.tied:
        yield src.linear("lm_head", s.vocab, s.hidden, 3.0)
