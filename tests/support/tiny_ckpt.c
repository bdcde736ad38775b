/* Tiny checkpoints for tests of the reader. The writer here is deliberately independent of the
 * reader's code: it knows the format from its description. */
#include "support/tiny_ckpt.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/temp.h"

enum {
    H = 64,
    V = 96,
    NH = 2,
    NKV = 1,
    HD = 32,
    KH = 1,
    VH = 2,
    DK = 32,
    TAPS = 4,
    I = 32,
    IS = 32
};
enum { CONV = 2 * KH * DK + VH * DK, GROUP = 32 };

static void *check(void *p) {
    if (!p) abort();
    return p;
}

static char *format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static char *format(const char *fmt, ...) {
    char *s = NULL;
    va_list ap;

    va_start(ap, fmt);
    if (vasprintf(&s, fmt, ap) < 0) abort();
    va_end(ap);
    return s;
}

uint32_t tiny_element_bytes(const char *dtype) {
    if (!strcmp(dtype, "F32") || !strcmp(dtype, "U32")) return 4;
    if (!strcmp(dtype, "BF16") || !strcmp(dtype, "F16")) return 2;
    return 1;
}

/* ---- building ---- */

tiny_tensor *tiny_add(tiny_ckpt *t, const char *name, const char *dtype, uint32_t n_dims,
                      const uint64_t *dims) {
    tiny_tensor *x;

    if (t->n == t->cap) {
        t->cap = t->cap ? 2 * t->cap : 64;
        t->tensors = check(realloc(t->tensors, t->cap * sizeof(*t->tensors)));
    }
    x = &t->tensors[t->n++];
    *x = (tiny_tensor){.dtype = dtype, .n_dims = n_dims, .seed = t->n};
    snprintf(x->name, sizeof(x->name), "%s", name);
    if (n_dims) memcpy(x->dims, dims, n_dims * sizeof(*dims));
    return x;
}

tiny_tensor *tiny_find(tiny_ckpt *t, const char *name) {
    for (uint32_t i = 0; i < t->n; i++)
        if (strcmp(t->tensors[i].name, name) == 0) return &t->tensors[i];
    fprintf(stderr, "tiny_find: no tensor %s\n", name);
    abort();
}

void tiny_remove(tiny_ckpt *t, const char *name) {
    *tiny_find(t, name) = t->tensors[t->n - 1];
    t->n--;
}

void tiny_config(tiny_ckpt *t, const char *from, const char *to) {
    char *at = strstr(t->config, from), *changed;

    if (!at) {
        fprintf(stderr, "tiny_config: no %s\n", from);
        abort();
    }
    changed = format("%.*s%s%s", (int)(at - t->config), t->config, to, at + strlen(from));
    free(t->config);
    t->config = changed;
}

/* A linear layer [lead.., rows, cols]; lead 0: none. Row r of part p is made from seed + p + 8 r.
 */
static void add_linear(tiny_ckpt *t, const char *module, const char *suffix, uint64_t lead,
                       uint64_t rows, uint64_t cols, uint64_t seed) {
    static const char *const parts[3] = {NULL, ".scales", ".biases"};
    uint32_t bits = t->opt.bits;

    for (int p = 0; p < (bits ? 3 : 1); p++) {
        uint64_t width = !bits ? cols : p == 0 ? cols * bits / 32 : cols / GROUP;
        uint64_t dims[3] = {lead, rows, width};
        const char *dtype = bits && p == 0 ? "U32" : "BF16";
        char *name = format("%s%s", module, p ? parts[p] : suffix);
        tiny_tensor *x = tiny_add(t, name, dtype, lead ? 3 : 2, lead ? dims : dims + 1);

        x->row_bytes = width * tiny_element_bytes(dtype);
        x->seed = seed + (uint64_t)p;
        free(name);
    }
}

static void add_vector(tiny_ckpt *t, const char *base, const char *name, uint64_t n) {
    char *full = format("%s%s", base, name);

    tiny_add(t, full, "BF16", 1, &n);
    free(full);
}

static void add_matrix(tiny_ckpt *t, const char *base, const char *name, uint64_t rows,
                       uint64_t cols) {
    char *full = format("%s%s", base, name);

    add_linear(t, full, ".weight", 0, rows, cols, t->n * 977);
    free(full);
}

static const char *prefix_of(const tiny_ckpt *t) {
    return t->opt.prefix ? t->opt.prefix : "language_model.model.";
}

/* Seed of an expert's row 0; rows of one projection of one expert are 8 apart. */
static uint64_t expert_seed(uint32_t layer, uint64_t expert, int proj) {
    return (uint64_t)(layer + 1) << 40 | expert << 20 | (uint64_t)proj << 16;
}

void tiny_add_experts(tiny_ckpt *t, uint32_t layer, tiny_layout layout) {
    static const char *const names[3] = {"gate_proj", "up_proj", "down_proj"};
    const char *pre = prefix_of(t);
    uint32_t n = t->opt.n_experts;

    if (layout == TINY_FUSED) {
        char *gate_up = format("%slayers.%u.mlp.experts.gate_up_proj", pre, layer);
        char *down = format("%slayers.%u.mlp.experts.down_proj", pre, layer);

        add_linear(t, gate_up, "", n, 2 * I, H, expert_seed(layer, 0, 0));
        add_linear(t, down, "", n, H, I, expert_seed(layer, 0, 2));
        free(gate_up);
        free(down);
        return;
    }
    for (int p = 0; p < 3; p++) {
        uint64_t rows = p == 2 ? H : I, cols = p == 2 ? I : H;

        for (uint32_t e = 0; e < (layout == TINY_SEPARATE ? n : 1); e++) {
            char *module = layout == TINY_SEPARATE
                               ? format("%slayers.%u.mlp.experts.%u.%s", pre, layer, e, names[p])
                               : format("%slayers.%u.mlp.switch_mlp.%s", pre, layer, names[p]);

            add_linear(t, module, ".weight", layout == TINY_SEPARATE ? 0 : n, rows, cols,
                       expert_seed(layer, e, p));
            free(module);
        }
    }
}

static void add_gdn(tiny_ckpt *t, const char *base) {
    uint64_t conv[3] = {CONV, t->opt.raw_conv ? 1 : TAPS, t->opt.raw_conv ? TAPS : 1};
    char *name = format("%slinear_attn.conv1d.weight", base);

    add_matrix(t, base, "linear_attn.in_proj_qkv", CONV, H);
    add_matrix(t, base, "linear_attn.in_proj_z", VH * DK, H);
    add_matrix(t, base, "linear_attn.in_proj_b", VH, H);
    add_matrix(t, base, "linear_attn.in_proj_a", VH, H);
    tiny_add(t, name, "BF16", 3, conv);
    add_vector(t, base, "linear_attn.A_log", VH);
    add_vector(t, base, "linear_attn.dt_bias", VH);
    add_vector(t, base, "linear_attn.norm.weight", DK);
    add_matrix(t, base, "linear_attn.out_proj", H, VH * DK);
    free(name);
}

static void add_attention(tiny_ckpt *t, const char *base) {
    add_matrix(t, base, "self_attn.q_proj", NH * 2 * HD, H);
    add_matrix(t, base, "self_attn.k_proj", NKV * HD, H);
    add_matrix(t, base, "self_attn.v_proj", NKV * HD, H);
    add_matrix(t, base, "self_attn.o_proj", H, NH * HD);
    add_vector(t, base, "self_attn.q_norm.weight", HD);
    add_vector(t, base, "self_attn.k_norm.weight", HD);
}

static void add_layer(tiny_ckpt *t, uint32_t layer) {
    char *base = format("%slayers.%u.", prefix_of(t), layer);

    add_vector(t, base, "input_layernorm.weight", H);
    add_vector(t, base, "post_attention_layernorm.weight", H);
    if ((layer + 1) % 4)
        add_gdn(t, base);
    else
        add_attention(t, base);
    add_matrix(t, base, "mlp.gate", t->opt.n_experts, H);
    add_matrix(t, base, "mlp.shared_expert.gate_proj", IS, H);
    add_matrix(t, base, "mlp.shared_expert.up_proj", IS, H);
    add_matrix(t, base, "mlp.shared_expert.down_proj", H, IS);
    add_matrix(t, base, "mlp.shared_expert_gate", 1, H);
    tiny_add_experts(t, layer, t->opt.layout);
    free(base);
}

static char *config_text(const tiny_options *o) {
    char *quant = o->bits
                      ? format(", \"quantization\": {\"group_size\": 32, \"bits\": %u}", o->bits)
                      : format("%s", "");
    char *text = format(
        "{\"model_type\": \"qwen3_5_moe\", \"text_config\": {\"hidden_size\": %d,"
        " \"num_hidden_layers\": %u, \"num_attention_heads\": %d, \"num_key_value_heads\": %d,"
        " \"head_dim\": %d, \"linear_num_key_heads\": %d, \"linear_num_value_heads\": %d,"
        " \"linear_key_head_dim\": %d, \"linear_value_head_dim\": %d, \"num_experts\": %u,"
        " \"num_experts_per_tok\": 2, \"moe_intermediate_size\": %d,"
        " \"shared_expert_intermediate_size\": %d, \"vocab_size\": %d,"
        " \"max_position_embeddings\": 512, \"eos_token_id\": 7}%s}",
        H, o->n_layers, NH, NKV, HD, KH, VH, DK, DK, o->n_experts, I, IS, V, quant);

    free(quant);
    return text;
}

tiny_ckpt *tiny_create(tiny_options opt) {
    tiny_ckpt *t = check(calloc(1, sizeof(*t)));

    if (!opt.n_layers) opt.n_layers = 4;
    if (!opt.n_experts) opt.n_experts = 4;
    if (!opt.n_files) opt.n_files = 1;
    t->opt = opt;
    t->config = config_text(&opt);
    add_matrix(t, prefix_of(t), "embed_tokens", V, H);
    add_vector(t, prefix_of(t), "norm.weight", H);
    add_matrix(t, "language_model.", "lm_head", V, H);
    for (uint32_t i = 0; i < opt.n_layers; i++) add_layer(t, i);
    for (uint32_t i = 0; i < t->n; i++)
        t->tensors[i].file = t->tensors[i].index_file = (int)(i * opt.n_files / t->n);
    return t;
}

void tiny_destroy(tiny_ckpt *t) {
    if (!t) return;
    free(t->config);
    free(t->tensors);
    free(t);
}

/* ---- writing ---- */

const char *tiny_file_name(const tiny_ckpt *t, int i) {
    static char name[64];

    if (t->opt.n_files == 1) return "model.safetensors";
    snprintf(name, sizeof(name), "model-%05d-of-%05u.safetensors", i + 1, t->opt.n_files);
    return name;
}

static uint64_t tensor_bytes(const tiny_tensor *x) {
    uint64_t n = tiny_element_bytes(x->dtype);

    for (uint32_t d = 0; d < x->n_dims; d++) n *= x->dims[d];
    return n;
}

/* In a stacked tensor row numbers go on over all experts; the pattern restarts with each. */
static uint64_t row_seed(const tiny_tensor *x, uint64_t row) {
    bool fused = strstr(x->name, "gate_up_proj") != NULL;
    uint64_t per = x->n_dims == 3 ? x->dims[1] : 0, expert = per ? row / per : 0;
    uint64_t r = per ? row % per : row, up = fused && r >= per / 2;

    return x->seed + (expert << 20) + (up << 16) + 8 * (up ? r - per / 2 : r);
}

static void write_data(FILE *f, const tiny_tensor *x) {
    uint64_t bytes = tensor_bytes(x), row_bytes = x->row_bytes ? x->row_bytes : bytes;

    for (uint64_t at = 0; at < bytes; at++) {
        uint64_t h = row_seed(x, at / row_bytes) * 0x9E3779B97F4A7C15u + at % row_bytes;

        putc((int)((h * 0xBF58476D1CE4E5B9u) >> 56), f);
    }
}

static void write_file(const tiny_ckpt *t, const char *dir, int file) {
    char *header = NULL, *path = temp_path(dir, tiny_file_name(t, file));
    size_t n = 0;
    uint64_t off = 0;
    FILE *h = check(open_memstream(&header, &n)), *f = check(fopen(path, "wb"));

    fprintf(h, "{\"__metadata__\":{\"format\":\"mlx\"}");
    for (uint32_t i = 0; i < t->n; i++) {
        const tiny_tensor *x = &t->tensors[i];

        if (x->file != file) continue;
        fprintf(h, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", x->name, x->dtype);
        for (uint32_t d = 0; d < x->n_dims; d++) fprintf(h, "%s%" PRIu64, d ? "," : "", x->dims[d]);
        fprintf(h, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", off, off + tensor_bytes(x));
        off += tensor_bytes(x);
    }
    fprintf(h, "}");
    fclose(h);
    for (int i = 0; i < 8; i++) putc((int)(n >> (8 * i) & 255), f);
    fwrite(header, 1, n, f);
    for (uint32_t i = 0; i < t->n && !t->opt.no_data; i++)
        if (t->tensors[i].file == file) write_data(f, &t->tensors[i]);
    if (fflush(f) || ftruncate(fileno(f), (off_t)(8 + n + off)) || fclose(f)) abort();
    free(header);
    free(path);
}

static void write_index(const tiny_ckpt *t, const char *dir) {
    char *text = NULL;
    size_t n = 0;
    FILE *f = check(open_memstream(&text, &n));
    const char *comma = "";

    fprintf(f, "{\"metadata\": {}, \"weight_map\": {%s", t->extra_index ? t->extra_index : "");
    for (uint32_t i = 0; i < t->n; i++) {
        const tiny_tensor *x = &t->tensors[i];

        if (x->index_file < 0) continue;
        fprintf(f, "%s\"%s\": \"%s\"", comma, x->name, tiny_file_name(t, x->index_file));
        comma = ", ";
    }
    fprintf(f, "}}");
    fclose(f);
    free(temp_write(dir, "model.safetensors.index.json", text, n));
    free(text);
}

void tiny_write(const tiny_ckpt *t, const char *dir) {
    free(temp_write(dir, "config.json", t->config, strlen(t->config)));
    for (uint32_t i = 0; i < t->opt.n_files; i++) write_file(t, dir, (int)i);
    if (t->opt.n_files > 1) write_index(t, dir);
}
