"""The same checkpoint through transformers, CPU, float32, on dequantised weights."""

import numpy as np
import torch
from transformers import (
    Qwen3_5ForCausalLM,
    Qwen3_5MoeForCausalLM,
    Qwen3_5MoeTextConfig,
    Qwen3_5TextConfig,
)


def state_dict(ck):
    """The parameters under the names of the *ForCausalLM classes, norms raw as they expect them."""

    def put(name, w):
        state[name] = torch.from_numpy(np.ascontiguousarray(w, np.float32))

    state = {}
    put("model.embed_tokens.weight", ck.linear("embed_tokens"))
    put("model.norm.weight", ck.norm("norm") - 1)
    put("lm_head.weight", ck.linear("embed_tokens" if ck.tied else "lm_head"))
    for i in range(ck.config["num_hidden_layers"]):
        p = f"layers.{i}."
        norms, linears, vectors = ["input_layernorm", "post_attention_layernorm"], [], []
        if ck.is_full(i):
            norms += ["self_attn.q_norm", "self_attn.k_norm"]
            linears += [f"self_attn.{x}_proj" for x in "qkvo"]
        else:
            linears += [
                f"linear_attn.{x}"
                for x in ("in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a", "out_proj")
            ]
            vectors += ["linear_attn.A_log", "linear_attn.dt_bias"]
            put(f"model.{p}linear_attn.norm.weight", ck.norm(p + "linear_attn.norm"))
            put(f"model.{p}linear_attn.conv1d.weight", ck.conv(i)[:, None, :])
        if ck.is_moe:
            linears += ["mlp.gate", "mlp.shared_expert_gate"]
            linears += [f"mlp.shared_expert.{x}_proj" for x in ("gate", "up", "down")]
            gate, up, down = ck.experts(i)
            put(f"model.{p}mlp.experts.gate_up_proj", np.concatenate((gate, up), axis=1))
            put(f"model.{p}mlp.experts.down_proj", down)
        else:
            linears += [f"mlp.{x}_proj" for x in ("gate", "up", "down")]
        for x in norms:
            put(f"model.{p}{x}.weight", ck.norm(p + x) - 1)
        for x in linears:
            put(f"model.{p}{x}.weight", ck.linear(p + x))
        for x in vectors:
            put(f"model.{p}{x}", ck.vector(p + x))
    return state


def forward(ck, ids):
    """Logits [T, V] float32."""
    config_class, model_class = (
        (Qwen3_5MoeTextConfig, Qwen3_5MoeForCausalLM)
        if ck.is_moe
        else (Qwen3_5TextConfig, Qwen3_5ForCausalLM)
    )
    settings = {
        k: v for k, v in ck.config.items() if k not in ("model_type", "dtype", "architectures")
    }
    settings = {k: v for k, v in settings.items() if not k.startswith("quantization")}
    config = config_class(**settings, dtype="float32", attn_implementation="eager", use_cache=False)
    config._experts_implementation = (
        "eager"  # the grouped one wants rows that are multiples of 16 bytes
    )
    model = model_class(config).to(torch.float32).eval()
    model.load_state_dict(state_dict(ck), strict=True)
    with torch.no_grad():
        logits = model(torch.tensor([list(ids)]), use_cache=False).logits[0]
    return logits.to(torch.float32).numpy()
