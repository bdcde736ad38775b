/* Sluice: mixture-of-experts language models larger than memory, their experts streamed from disk.
 *
 *     slc_model *m;  slc_seq *s;  slc_err err = {0};
 *     slc_model_options opt = slc_model_options_default();
 *     opt.memory_bytes = 8ull << 30;
 *     slc_model_open("Qwen3.5-35B-A3B-4bit", &opt, &m, &err);
 *     slc_seq_create(m, &s, &err);
 *     ... slc_step(m, items, n, on_logits, user) or slc_generate(m, s, ...)
 *     slc_seq_destroy(s);  slc_model_close(m);
 *
 * Ownership: what create/open returns is destroyed/closed by the caller, sequences before their
 * model. Threads: a model and its sequences belong to one thread at a time; only slc_model_cancel
 * may be called from another thread or a signal handler. Nothing here prints or exits. */
#ifndef SLUICE_H
#define SLUICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sluice/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct slc_model slc_model;
typedef struct slc_seq slc_seq;

/* ---- version ---- */

#define SLC_VERSION "0.1.0"
SLC_API const char *slc_version(void);

/* ---- model ---- */

typedef void slc_log_fn(void *user, int level,
                        const char *line); /* level 0 warning, 1 info, 2 debug */

typedef struct slc_model_options {
    uint64_t memory_bytes;       /* 0: from cgroup limit and MemAvailable; hard limit on VmHWM */
    uint64_t expert_cache_bytes; /* 0: what memory_bytes leaves; the expert slab alone */
    uint32_t ctx_size;           /* 0: min(the model's, 8192); positions per sequence */
    uint32_t n_seqs;             /* 1, at most 1024; sequences that can exist at once */
    uint32_t threads;            /* 0: one for each core that affinity and cgroup allow */
    uint32_t prefill_chunk;      /* 0: up to 512, less when memory is short; tokens per pass */
    bool exact;                  /* false; f32 activations and f32 KV, for comparison */
    const char *cpu_level;       /* NULL: "auto"; "scalar", "avx2", "avx512": cap */
    const char *io;              /* NULL: "auto"; "uring", "threads", "buffered" (page cache) */
    const char *stream_mode;     /* NULL: "full"; "seed", "serial": how the original did it */
    const char *policy;          /* NULL: "best"; "lru", "lfu-decay": which expert is given up */
    const char *predict;         /* NULL: "auto"; "off", or a list of "previous", "next", "ahead2",
                                    "prompt": what is read before it is asked for */
    const char *trace;           /* NULL: none; file that every expert request is recorded to */
    const char *hot_start; /* NULL: none; file that remembers which experts were held at close,
                              read before they are asked for at the next open */
    bool verify_reads;     /* false; hold every expert read from a pack against its hash */
    slc_log_fn *log;       /* NULL: silent */
    void *log_user;
    int log_level; /* 1 */
} slc_model_options;

SLC_API slc_model_options slc_model_options_default(void);

/* Opens a checkpoint folder (or a file in one), loads the dense part, gives the rest of the memory
 * budget to the expert slab. Fails with SLC_E_NOMEM, naming the smallest budget that works, when
 * memory_bytes is too small. May raise the process's soft limit of open files to the hard one. */
SLC_API slc_status slc_model_open(const char *path, const slc_model_options *opt, slc_model **out,
                                  slc_err *err) SLC_MUST_CHECK;
SLC_API void slc_model_close(slc_model *m);

/* Makes the running (or next) slc_step or slc_generate return SLC_E_CANCELLED soon. Async-signal
 * safe. A request that comes too late for a slc_step stops the next one; slc_generate forgets it
 * when it returns. */
SLC_API void slc_model_cancel(slc_model *m);

/* Facts and plan of a checkpoint. Self-contained: it may outlive the model. */
typedef struct slc_model_info {
    char model_type[64]; /* "qwen3_5_moe" */
    uint32_t n_layers, n_full_layers, hidden_size, vocab_size, max_positions;
    uint32_t n_experts, n_experts_per_tok; /* 0 for a dense model */
    uint64_t n_params;
    char dense_format[32];  /* most common encoding of the resident matrices */
    char expert_format[32]; /* of the experts; "mixed" if layers differ; "" for dense */
    bool tied_embeddings, norms_are_raw;
    uint32_t n_stop_ids;
    int32_t stop_ids[16];
    uint64_t file_bytes, ignored_bytes; /* all weights; vision and mtp tensors not used */
    uint64_t expert_bytes, expert_bytes_total, expert_bytes_per_token; /* unpadded */
    /* memory plan for the options given */
    uint32_t ctx_size, n_seqs, prefill_chunk, n_slots;
    uint64_t budget_bytes, smallest_budget_bytes;
    uint64_t process_bytes, resident_bytes, state_bytes, scratch_bytes, slab_bytes, slot_bytes;
    /* sampling defaults of generation_config.json, negative when not given */
    float temperature, top_p, min_p, repeat_penalty, presence_penalty;
    int32_t top_k;
    int do_sample;
    const char *cpu_level, *io; /* in use; io "" for a dense model */
    uint32_t threads;
} slc_model_info;

/* The same plan without loading: opens and checks the folder, reads headers only. */
SLC_API slc_status slc_model_inspect(const char *path, const slc_model_options *opt,
                                     slc_model_info *info, slc_err *err) SLC_MUST_CHECK;
SLC_API void slc_model_get_info(const slc_model *m, slc_model_info *info);

/* What became of experts that were read before they were asked for, by source. */
typedef enum slc_prediction {
    SLC_PREDICT_PREVIOUS = 0, /* what the token before used */
    SLC_PREDICT_NEXT,         /* the next layer's router on the present hidden state */
    SLC_PREDICT_AHEAD2,       /* the one after that */
    SLC_PREDICT_PROMPT,       /* what the prompt used most */
    SLC_PREDICT_HOT,          /* what was held when the program last ended */
    SLC_N_PREDICTIONS
} slc_prediction;

typedef struct slc_prediction_stats {
    uint64_t asked, present; /* hints; of these there, or on their way, already */
    uint64_t read;           /* of these read */
    uint64_t used, late;     /* of these ready, still loading, when asked for */
    uint64_t wasted;         /* of these evicted or superseded unused */
    uint64_t bytes_read;
    /* Of previous, next and ahead2, in decoding: experts asked for in the layers and passes about
     * which there were hints; of these hinted at. Recall is foreseen / wanted. */
    uint64_t wanted, foreseen;
    bool off; /* has not paid lately */
} slc_prediction_stats;

/* Counters since open. Rates are the caller's to form. */
typedef struct slc_stats {
    uint64_t prefill_tokens, prefill_ns;  /* passes of more than one token per sequence */
    uint64_t decode_tokens, decode_ns;    /* passes of one token per sequence */
    uint64_t hits, misses;                /* experts asked for that were ready, that were not */
    uint64_t late;                        /* of the misses: on their way already */
    uint64_t reads, bytes_read, stall_ns; /* asked of the disk; time in which it was waited for */
    /* Bytes that arrived in layers whose experts had to be waited for, from asking for them to the
     * end of the last wait, and how long that was: what the disk gave while it was busy. */
    uint64_t timed_bytes, timed_ns;
    slc_prediction_stats predict[SLC_N_PREDICTIONS];
    uint64_t peak_rss_bytes;
} slc_stats;

SLC_API slc_stats slc_model_get_stats(const slc_model *m);

/* Where the time of passes went since open. The stages of a phase add up to its time. */
typedef struct slc_stage_stats {
    const char *block, *name; /* "linear attention", "recurrence"; block may be "" */
    uint64_t prefill_ns, decode_ns;
    /* What the stage moves: weights, recurrent state read and written, keys and values. */
    uint64_t prefill_bytes, decode_bytes;
} slc_stage_stats;

#define SLC_MAX_STAGES 32
/* Fills out [SLC_MAX_STAGES] with the stages that took any time, in the order of a pass; returns
 * how many. */
SLC_API uint32_t slc_model_get_stages(const slc_model *m, slc_stage_stats *out);

/* ---- text ---- */

/* Encodes `n` bytes of any content. `special`: added tokens in the text are recognised. *ids is the
 * caller's to free(). SLC_E_UNSUPPORTED when the checkpoint has no tokenizer.json. */
SLC_API slc_status slc_tokenize(const slc_model *m, const char *text, size_t n, bool special,
                                int32_t **ids, size_t *n_ids, slc_err *err) SLC_MUST_CHECK;
/* The text of n ids, special tokens left out; malloc'd, NUL-terminated, the caller's to free(). */
SLC_API slc_status slc_detokenize(const slc_model *m, const int32_t *ids, size_t n, char **text,
                                  size_t *n_text, slc_err *err) SLC_MUST_CHECK;

/* ---- sequences and the one verb ---- */

/* An empty sequence. SLC_E_BUSY when n_seqs exist already. */
SLC_API slc_status slc_seq_create(slc_model *m, slc_seq **out, slc_err *err) SLC_MUST_CHECK;
SLC_API void slc_seq_destroy(slc_seq *s);
/* Back to empty: KV length, convolution rows and recurrent state together. */
SLC_API void slc_seq_reset(slc_seq *s);
/* Tokens consumed so far. */
SLC_API uint32_t slc_seq_len(const slc_seq *s);

typedef enum slc_want { SLC_WANT_NONE = 0, SLC_WANT_LAST = 1, SLC_WANT_ALL = 2 } slc_want;

/* One sequence's share of a step. Sequences of a step are distinct. */
typedef struct slc_step_item {
    slc_seq *seq;
    const int32_t *tokens; /* [n_tokens], n_tokens >= 1 */
    uint32_t n_tokens;
    slc_want want; /* positions whose logits are needed */
    slc_err err;   /* out: why this item failed; code SLC_OK otherwise */
} slc_step_item;

/* logits [vocab_size] after token `pos` (0-based in the item's tokens) of items[item]; borrowed for
 * the call. Called on the stepping thread, per item in ascending pos. */
typedef void slc_logits_fn(void *user, uint32_t item, uint32_t pos, const float *logits);

/* Feeds every item's tokens to its sequence. Prefill, decode, verification and concurrent requests
 * are all this call; results of an item do not depend on the others. Long inputs are split into
 * passes of prefill_chunk tokens. Returns SLC_OK when the call itself worked: look at each item's
 * err. An item that fails leaves its sequence broken (only reset and destroy work), the others go
 * on. A too long input fails its item before any work, the sequence untouched. When a weight file
 * of a model with experts is written to, cut or grown while the model is open, all items fail from
 * then on, and only opening it again helps; removing or replacing files by name does no harm.
 * SLC_E_CANCELLED: stopped between passes; sequences stay usable at the length they report. */
SLC_API slc_status slc_step(slc_model *m, slc_step_item *items, uint32_t n_items,
                            slc_logits_fn *on_logits, void *user, slc_err *err) SLC_MUST_CHECK;

/* ---- sampling and generation ---- */

typedef struct slc_sampling {
    float temperature;      /* 1.0; 0: greedy */
    int32_t top_k;          /* 0: off */
    float top_p;            /* 1.0: off */
    float min_p;            /* 0: off */
    float repeat_penalty;   /* 1.0: off; over the last repeat_last_n tokens, prompt included */
    float presence_penalty; /* 0: off; over generated tokens */
    int32_t repeat_last_n;  /* 64; 0: off, -1: all */
    uint64_t seed;
} slc_sampling;

/* The library's defaults, overridden by what the model's generation_config.json gives. */
SLC_API slc_sampling slc_sampling_default(const slc_model *m);

typedef enum slc_finish {
    SLC_FINISH_STOP = 0, /* stop id or stop string */
    SLC_FINISH_LENGTH,   /* max_tokens or the context is full */
    SLC_FINISH_CANCELLED,
    SLC_FINISH_ERROR,
} slc_finish;

typedef struct slc_generate_options {
    slc_sampling sampling;
    uint32_t max_tokens;     /* 0: until the context is full */
    bool ignore_eos;         /* false: stop at the model's stop ids */
    const char *const *stop; /* [n_stop] strings that end the text; never part of it */
    uint32_t n_stop;
    /* Text as it is made: whole characters, nothing that might turn out to begin a stop string.
     * NULL: no streaming. Return false to cancel. */
    bool (*on_text)(void *user, const char *text, size_t n);
    /* Progress of the prompt, after each pass. NULL: none. */
    void (*on_prefill)(void *user, uint32_t done, uint32_t total);
    void *user;
} slc_generate_options;

typedef struct slc_generation {
    int32_t *ids; /* generated ids, a final stop id included */
    uint32_t n_ids;
    char *text; /* NUL-terminated, n_text bytes */
    size_t n_text;
    uint32_t n_prompt;
    slc_finish finish;
} slc_generation;

/* Feeds the prompt ids to `seq` and generates. On failure too, what was made is in *out; free it
 * with slc_generation_deinit. A prompt that does not fit the context is SLC_E_INVALID before work.
 */
SLC_API slc_status slc_generate(slc_model *m, slc_seq *seq, const int32_t *prompt,
                                uint32_t n_prompt, const slc_generate_options *opt,
                                slc_generation *out, slc_err *err) SLC_MUST_CHECK;
SLC_API void slc_generation_deinit(slc_generation *g);

#ifdef __cplusplus
}
#endif
#endif
