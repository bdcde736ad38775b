"""Qwen3.5 text models in NumPy and float64: the formulas, one after another, nothing else.

The arbiter when other implementations disagree. Works on all positions at once where the
mathematics allows it; the recurrence of the linear layers runs token by token.
"""

import numpy as np


def sigmoid(x):
    return np.exp(-np.logaddexp(0, -x))


def silu(x):
    return x * sigmoid(x)


def softplus(x):
    return np.logaddexp(0, x)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def rms(x, w, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


def l2(x):
    return x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6)


def rope(x, theta, dims):
    """x [T, heads, hd]: rotate-half inside the first `dims` of a head."""
    t, half = x.shape[0], dims // 2
    angle = np.arange(t)[:, None] * theta ** (-2.0 * np.arange(half) / dims)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    a, b = x[..., :half], x[..., half:dims]
    return np.concatenate((a * cos - b * sin, b * cos + a * sin, x[..., dims:]), -1)


def attention(ck, layer, u):
    c, p, t = ck.config, f"layers.{layer}.self_attn.", len(u)
    nh, nkv, hd, eps = (
        c["num_attention_heads"],
        c["num_key_value_heads"],
        c["head_dim"],
        c["rms_norm_eps"],
    )
    r = c["rope_parameters"]
    dims = int(hd * r["partial_rotary_factor"])
    q, gate = np.split((u @ ck.linear(p + "q_proj").T).reshape(t, nh, 2 * hd), 2, -1)
    k = (u @ ck.linear(p + "k_proj").T).reshape(t, nkv, hd)
    v = (u @ ck.linear(p + "v_proj").T).reshape(t, nkv, hd)
    q = rope(rms(q, ck.norm(p + "q_norm"), eps), r["rope_theta"], dims)
    k = rope(rms(k, ck.norm(p + "k_norm"), eps), r["rope_theta"], dims)
    future = np.triu(np.full((t, t), -np.inf), 1)
    out = np.empty((t, nh, hd))
    for h in range(nh):
        shared = h // (nh // nkv)
        out[:, h] = softmax(q[:, h] @ k[:, shared].T / np.sqrt(hd) + future) @ v[:, shared]
    return (out * sigmoid(gate)).reshape(t, nh * hd) @ ck.linear(p + "o_proj").T


def convolve(rows, w):
    """Causal depthwise convolution, last tap on the current row, zeros before the first; SiLU."""
    t, taps = len(rows), w.shape[1]
    padded = np.concatenate((np.zeros((taps - 1, rows.shape[1])), rows))
    return silu(sum(padded[j : j + t] * w[:, j] for j in range(taps)))


def delta_rule(q, k, v, beta, g):
    """q, k [T, VH, dk], v [T, VH, dv], beta, g [T, VH] -> o [T, VH, dv]. S is [VH, dv, dk]."""
    s = np.zeros((v.shape[1], v.shape[2], k.shape[2]))
    out = np.empty_like(v)
    for t in range(len(v)):
        s *= g[t][:, None, None]
        predicted = (s @ k[t][:, :, None])[..., 0]
        delta = beta[t][:, None] * (v[t] - predicted)
        s += delta[:, :, None] * k[t][:, None, :]
        out[t] = (s @ q[t][:, :, None])[..., 0]
    return out


def delta_net(ck, layer, u):
    c, p, t = ck.config, f"layers.{layer}.linear_attn.", len(u)
    kh, vh = c["linear_num_key_heads"], c["linear_num_value_heads"]
    dk, dv = c["linear_key_head_dim"], c["linear_value_head_dim"]
    x = convolve(u @ ck.linear(p + "in_proj_qkv").T, ck.conv(layer))
    q, k, v = np.split(x, [kh * dk, 2 * kh * dk], -1)
    q = np.repeat(l2(q.reshape(t, kh, dk)) / np.sqrt(dk), vh // kh, axis=1)
    k = np.repeat(l2(k.reshape(t, kh, dk)), vh // kh, axis=1)
    beta = sigmoid(u @ ck.linear(p + "in_proj_b").T)
    a = u @ ck.linear(p + "in_proj_a").T
    g = np.exp(-np.exp(ck.vector(p + "A_log")) * softplus(a + ck.vector(p + "dt_bias")))
    o = delta_rule(q, k, v.reshape(t, vh, dv), beta, g)
    z = (u @ ck.linear(p + "in_proj_z").T).reshape(t, vh, dv)
    y = rms(o, ck.norm(p + "norm"), c["rms_norm_eps"]) * silu(z)
    return y.reshape(t, vh * dv) @ ck.linear(p + "out_proj").T


def swiglu(u, gate, up, down):
    return (silu(u @ gate.T) * (u @ up.T)) @ down.T


def feed_forward(ck, module, u):
    return swiglu(u, *(ck.linear(f"{module}.{x}_proj") for x in ("gate", "up", "down")))


def mixture(ck, layer, u, margins):
    """`margins` [T] is lowered to the gap between the last chosen and the first refused router
    logit: how far the routing of a position is from being another."""
    p, k = f"layers.{layer}.mlp.", ck.config["num_experts_per_tok"]
    logits = u @ ck.linear(p + "gate").T
    order = np.argsort(-logits, axis=-1, kind="stable")  # ties: the lower index first
    chosen = order[:, :k]
    weight = softmax(np.take_along_axis(logits, chosen, -1))
    if k < logits.shape[1]:
        ranked = np.take_along_axis(logits, order, -1)
        np.minimum(margins, ranked[:, k - 1] - ranked[:, k], out=margins)
    gate, up, down = ck.experts(layer)
    routed = np.zeros_like(u)
    for e in np.unique(chosen):
        token, rank = np.nonzero(chosen == e)
        routed[token] += weight[token, rank, None] * swiglu(u[token], gate[e], up[e], down[e])
    shared = sigmoid(u @ ck.linear(p + "shared_expert_gate").T)
    return routed + shared * feed_forward(ck, p + "shared_expert", u)


def forward(ck, ids, watch=lambda name, x: None):
    """Logits [T, V] of a token sequence, and the router margins [T] (infinite for dense models).
    `watch` is shown the residual stream [T, H] at each step, by name."""
    eps = ck.config["rms_norm_eps"]
    embedding = ck.linear("embed_tokens")
    margins = np.full(len(ids), np.inf)
    x = embedding[np.asarray(ids)]
    watch("embedding", x)
    for i in range(ck.config["num_hidden_layers"]):
        p = f"layers.{i}."
        u = rms(x, ck.norm(p + "input_layernorm"), eps)
        x = x + (attention(ck, i, u) if ck.is_full(i) else delta_net(ck, i, u))
        watch(p + "mixer", x)
        u = rms(x, ck.norm(p + "post_attention_layernorm"), eps)
        x = x + (mixture(ck, i, u, margins) if ck.is_moe else feed_forward(ck, p + "mlp", u))
        watch(p + "mlp", x)
    x = rms(x, ck.norm("norm"), eps)
    watch("norm", x)
    return x @ (embedding if ck.tied else ck.linear("lm_head")).T, margins
