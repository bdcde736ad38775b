"""The named tiny models. tests/golden/README.md says what each is for."""

from dataclasses import replace

from spec import ROUTER_8BIT, Spec

ROUTER_8BIT_G32 = ((r"mlp\.(gate|shared_expert_gate)$", 8, 32),)
# fmt: off
SMALL = Spec(
    layers=2, interval=2, hidden=64, heads=2, kv_heads=1, experts=6, expert_size=32,
    shared_size=32, group=32,
)
DENSE = Spec(
    layers=2, interval=2, experts=0, ffn=64, hidden=32, heads=2, kv_heads=1, value_heads=4,
    value_dim=8, group=32, bits=0,
)
SLOW = replace(DENSE, layout="hf", prefix="model.language_model.", decay="slow", seed=29)

MIXED = (
    (r"^embed_tokens$", 6, 32),
    (r"^lm_head$", 8, 64),
    (r"linear_attn\.in_proj_[ab]$", 0, 0),
    (r"switch_mlp\.gate_proj$", 3, 64),
    (r"switch_mlp\.up_proj$", 5, 32),
    (r"layers\.1\.mlp\.switch_mlp\.down_proj$", 8, 32),
    (r"shared_expert\.", 2, 32),
    (r"mlp\.gate$", 8, 64),
    (r"shared_expert_gate$", 0, 0),
    (r"self_attn\.q_proj$", 6, 64),
)

PRESETS = {
    "moe-q4g64": Spec(experts=6, overrides=ROUTER_8BIT),
    "moe-q2g128": replace(
        SMALL, hidden=128, head_dim=64, value_heads=4, value_dim=32, experts=3, expert_size=128,
        shared_size=128, bits=2, group=128, scale_dtype="F16", float_dtype="F16",
        decay_dtype="BF16",
    ),
    "moe-q3g32": replace(SMALL, experts=7, top_k=3, bits=3, tied=True),
    "moe-q5g32": replace(
        SMALL, hidden=96, heads=4, kv_heads=2, head_dim=24, key_heads=1, value_heads=3, key_dim=24,
        value_dim=32, experts=3, bits=5, scale_dtype="F32", float_dtype="F32", rotary=0.5,
        vocab=317,
    ),
    "moe-q6g64": replace(
        SMALL, key_heads=2, value_heads=2, key_dim=32, value_dim=32, head_dim=32, experts=4,
        expert_size=64, shared_size=64, bits=6, group=64, nested=False, prefix="model.",
        float_dtype="F32",
    ),
    "moe-q8g32": replace(
        SMALL, experts=4, top_k=4, bits=8, scale_dtype="F16", decay_dtype="BF16", theta=1e4,
    ),
    "moe-mixed": replace(
        SMALL, expert_size=64, shared_size=32, experts=4, bits=4, overrides=MIXED, value_heads=4,
        value_dim=16,
    ),
    "moe-many": replace(
        SMALL, hidden=32, experts=40, top_k=8, bits=4, key_heads=1, value_heads=2,
        overrides=ROUTER_8BIT_G32,
    ),
    "moe-odd": replace(
        SMALL, experts=5, bits=4, shards=3, odd_start=True, side_towers=True,
        overrides=ROUTER_8BIT_G32, decay_dtype="BF16", dt_dtype="F16", scale_dtype="BF16",
        shared_size=64, vocab=315,
    ),
    "moe-experts-q4": replace(
        SMALL, layout="per-expert", prefix="model.language_model.", experts=5, top_k=2, bits=4,
        shards=2, tied=True,
    ),
    "moe-hf-bf16": replace(
        SMALL, layout="hf", prefix="model.language_model.", bits=0, hidden=32, experts=6,
        expert_size=20, shared_size=28, side_towers=True, shards=2, decay_dtype="BF16",
    ),
    "moe-hf-f16": replace(
        SMALL, layout="hf", prefix="model.", bits=0, nested=False, hidden=36, head_dim=12, heads=3,
        kv_heads=1, rotary=0.5, experts=5, top_k=2, expert_size=17, shared_size=33,
        float_dtype="F16", decay_dtype="F16", tied=True, key_heads=1, value_heads=3, key_dim=10,
        value_dim=14, layers=3, layer_types="flf", interval=4,
    ),
    "moe-experts-f32": replace(
        SMALL, layout="per-expert", prefix="", bits=0, nested=False, hidden=24, head_dim=8,
        experts=3, top_k=1, expert_size=16, shared_size=24, float_dtype="F32", odd_start=True,
    ),
    "dense-q4g64": Spec(
        experts=0, ffn=128, hidden=64, layers=4, bits=4, group=64, tied=True, key_heads=2,
        value_heads=4,
    ),
    "dense-q8g32": replace(
        DENSE, bits=8, prefix="model.", nested=False, scale_dtype="F16", float_dtype="F16",
        value_dim=8,
    ),
    "dense-hf-bf16": replace(
        DENSE, layout="hf", prefix="model.language_model.", layers=4, interval=4, key_heads=2,
        value_heads=6, key_dim=12, value_dim=10, taps=4, decay_dtype="BF16", side_towers=True,
    ),
    "decay-extreme": replace(
        DENSE, layout="hf", prefix="model.language_model.", decay="extreme", seed=3,
    ),
    "decay-f32": replace(SLOW, decay_dtype="F32"),
    "decay-bf16": replace(SLOW, decay_dtype="BF16"),
    "decay-f16": replace(SLOW, decay_dtype="F16"),
}
