"""The JSON files beside the weights: config, generation config, tokenizer, chat template."""

import json
import os

from layout import quantised_modules

SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# The family's added tokens in id order; "-" in front: not special, so it shows in decoded text.
ADDED = (
    "<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|> "
    "<|box_end|> <|quad_start|> <|quad_end|> <|vision_start|> <|vision_end|> <|vision_pad|> "
    "<|image_pad|> <|video_pad|> -<tool_call> -</tool_call> -<|fim_prefix|> -<|fim_middle|> "
    "-<|fim_suffix|> -<|fim_pad|> -<|repo_name|> -<|file_sep|> -<tool_response> -</tool_response> "
    "-<think> -</think> <|audio_start|> <|audio_end|> <tts_pad> <tts_text_bos> <tts_text_eod> "
    "<tts_text_bos_single> <|audio_pad|>"
).split()

ENGLISH = (
    "Ġ t|h e|i n|Ġ a|e r|o n|Ġt he|r e|a t|e n|Ġ s|Ġ w"
    "|o r|i s|n d|Ġ o|Ġa nd|e s|i t|in g|Ġt o|l l|o u|Ġ ,"
)

TEMPLATE = """{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""


def byte_characters():
    """The character that stands for each byte value in a byte-level vocabulary."""
    plain = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(b) if b in plain else chr(next(others)) for b in range(256)]


def tokenizer():
    """tokenizer.json of the family: bytes, a few merges, the added tokens; and the first added id."""
    chars = byte_characters()
    ordinary = sorted(chars, key=lambda c: (ord(c) >= 0x100, ord(c)))
    table = [tuple(m.split(" ")) for m in ENGLISH.split("|")]
    vocab = {c: i for i, c in enumerate([*ordinary, *(a + b for a, b in table)])}
    added = [
        {
            "id": len(vocab) + i,
            "content": t.removeprefix("-"),
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": not t.startswith("-"),
        }
        for i, t in enumerate(ADDED)
    ]
    split = {"type": "Split", "pattern": {"Regex": SPLIT}, "behavior": "Isolated", "invert": False}
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": False,
        "use_regex": False,
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocab,
            "merges": [list(m) for m in table],
        },
    }, len(vocab)


def text_config(s, end_of_text):
    c = {
        "model_type": "qwen3_5_moe_text" if s.experts else "qwen3_5_text",
        "hidden_size": s.hidden,
        "num_hidden_layers": s.layers,
        "num_attention_heads": s.heads,
        "num_key_value_heads": s.kv_heads,
        "head_dim": s.head_dim,
        "linear_num_key_heads": s.key_heads,
        "linear_num_value_heads": s.value_heads,
        "linear_key_head_dim": s.key_dim,
        "linear_value_head_dim": s.value_dim,
        "linear_conv_kernel_dim": s.taps,
        "full_attention_interval": s.interval,
        "layer_types": [
            "full_attention" if s.is_full(i) else "linear_attention" for i in range(s.layers)
        ],
        "attn_output_gate": True,
        "attention_bias": False,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": s.theta,
            "partial_rotary_factor": s.rotary,
            "mrope_interleaved": True,
            "mrope_section": [11, 11, 10],
        },
        "vocab_size": s.vocab,
        "max_position_embeddings": 262144,
        "mamba_ssm_dtype": "float32",
        "mtp_num_hidden_layers": 1,
        "tie_word_embeddings": s.tied,
        "eos_token_id": end_of_text,
        "dtype": "bfloat16",
    }
    if s.experts:
        c["num_experts"] = s.experts
        c["num_experts_per_tok"] = s.top_k
        c["moe_intermediate_size"] = s.expert_size
        c["shared_expert_intermediate_size"] = s.shared_size
    else:
        c["intermediate_size"] = s.ffn
    return c


def quantization(s, entries):
    """The block that MLX writes: the default, then each module that departs from it."""
    block = {"group_size": s.group, "bits": s.bits, "mode": "affine"}
    for module, encoding in quantised_modules(s, entries).items():
        if encoding is None:
            block[module] = False
        elif encoding != (s.bits, s.group):
            block[module] = {"group_size": encoding[1], "bits": encoding[0]}
    return block


def config(s, entries, end_of_text):
    text = text_config(s, end_of_text)
    kind = "qwen3_5_moe" if s.experts else "qwen3_5"
    if s.nested:
        architecture = (
            "Qwen3_5MoeForConditionalGeneration" if s.experts else "Qwen3_5ForConditionalGeneration"
        )
        c = {
            "architectures": [architecture],
            "model_type": kind,
            "text_config": text,
            "tie_word_embeddings": s.tied,
        }
    else:
        architecture = "Qwen3_5MoeForCausalLM" if s.experts else "Qwen3_5ForCausalLM"
        c = {"architectures": [architecture], **text, "model_type": kind}
    if s.bits:
        c["quantization"] = c["quantization_config"] = quantization(s, entries)
    return c


def write_json(folder, name, value, indent=2):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
        json.dump(
            value, f, ensure_ascii=False, indent=indent, separators=None if indent else (",", ":")
        )
        f.write("\n")


def write_side_files(folder, s, entries):
    tok, end_of_text = tokenizer()
    if end_of_text + len(ADDED) > s.vocab:
        raise ValueError(f"vocab {s.vocab}: the tokenizer needs {end_of_text + len(ADDED)} rows")
    write_json(folder, "config.json", config(s, entries, end_of_text))
    write_json(folder, "tokenizer.json", tok, indent=None)
    write_json(
        folder,
        "generation_config.json",
        {
            "eos_token_id": [end_of_text + 2, end_of_text],
            "pad_token_id": end_of_text,
            "do_sample": True,
            "temperature": 0.7,
            "top_k": 20,
            "top_p": 0.95,
        },
    )
    write_json(
        folder,
        "tokenizer_config.json",
        {
            "tokenizer_class": "Qwen2Tokenizer",
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "add_prefix_space": False,
            "clean_up_tokenization_spaces": False,
        },
    )
    with open(os.path.join(folder, "chat_template.jinja"), "w", encoding="utf-8") as f:
        f.write(TEMPLATE)
