/* tokenizer.json: whatever is accepted must be consistent. */
#include "format/tokenizer_json.h"
#include "fuzz/fuzz.h"

static void check_vocab(const slc_vocab *v) {
    fuzz_check(v->n_ids <= SLC_VOCAB_MAX_IDS && v->n_merges <= SLC_VOCAB_MAX_IDS);
    for (uint32_t id = 0; id < v->n_ids; id++)
        fuzz_check((uint64_t)v->tokens[id].off + v->tokens[id].len <= v->n_text);
    for (uint32_t rank = 0; rank < v->n_merges; rank++)
        fuzz_check(v->merged[rank] < v->n_ids && v->tokens[v->merged[rank]].len >= 2);
    for (uint32_t i = 0; i < v->cap_merges; i++) {
        uint32_t left = (uint32_t)(v->merges[i] >> 2 * SLC_VOCAB_ID_BITS) & (SLC_VOCAB_MAX_IDS - 1);
        uint32_t right = (uint32_t)(v->merges[i] >> SLC_VOCAB_ID_BITS) & (SLC_VOCAB_MAX_IDS - 1);

        if (v->merges[i]) fuzz_check(slc_vocab_rank(v, left, right) < v->n_merges);
    }
}

static void check_tokenizer(const slc_tokenizer_json *t) {
    check_vocab(&t->vocab);
    for (uint32_t i = 0; i < t->n_added; i++) {
        fuzz_check(t->added[i].id >= 0 && (uint32_t)t->added[i].id < t->vocab.n_ids);
        fuzz_check(t->vocab.tokens[t->added[i].id].len > 0);
    }
    for (int b = 0; b < 256; b++)
        fuzz_check(t->byte_id[b] >= -1 && t->byte_id[b] < (int32_t)t->vocab.n_ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *json = fuzz_copy(data, size);
    slc_tokenizer_json t;
    slc_err err = {0};
    slc_status rc = slc_tokenizer_json_parse(json, size, "input", &t, &err);

    free(json); /* the tokenizer holds nothing of the text */
    fuzz_check(rc == err.code && (rc == SLC_OK || *err.msg));
    if (!rc)
        check_tokenizer(&t);
    else
        fuzz_check(!t.vocab.text && !t.added && !t.split);
    slc_tokenizer_json_deinit(&t);
    return 0;
}
