/* Merging: the heap against the definition, and its growth with the length of a piece. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "text/bpe.h"
#include "unit/text/cpu_time.h"

static uint32_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* Letters 0..n_letters-1 and random merges of what is there already. Texts are numbers: the bytes
 * that a token stands for. */
static void random_vocab(slc_vocab *v, uint64_t *random, uint32_t n_letters, uint32_t n_merges) {
    slc_err err = {0};

    *v = (slc_vocab){0};
    for (uint32_t i = 0; i < n_letters; i++) {
        char letter = (char)('a' + i);

        assert_int_equal(slc_vocab_add(v, i, &letter, 1, true, &err), SLC_OK);
    }
    for (uint32_t i = 0; i < n_merges; i++) {
        int32_t a = (int32_t)(next_random(random) % v->n_ids), id;
        int32_t b = (int32_t)(next_random(random) % v->n_ids);
        slc_span x = v->tokens[a], y = v->tokens[b];
        char text[64];

        if (x.len + y.len > sizeof(text)) continue;
        memcpy(text, v->text + x.off, x.len);
        memcpy(text + x.len, v->text + y.off, y.len);
        id = slc_vocab_find(v, text, x.len + y.len);
        if (id < 0) {
            id = (int32_t)v->n_ids;
            assert_int_equal(slc_vocab_add(v, id, text, x.len + y.len, true, &err), SLC_OK);
        }
        assert_int_equal(slc_vocab_add_merge(v, a, b, id, &err), SLC_OK);
    }
}

/* The definition: merge the leftmost pair of lowest rank until there is none. */
static size_t merge_by_definition(const slc_vocab *v, int32_t *ids, size_t n) {
    for (;;) {
        uint32_t best = UINT32_MAX;
        size_t at = 0;

        for (size_t i = 0; i + 1 < n; i++) {
            uint32_t rank = slc_vocab_rank(v, (uint32_t)ids[i], (uint32_t)ids[i + 1]);

            if (rank < best) {
                best = rank;
                at = i;
            }
        }
        if (best == UINT32_MAX) return n;
        ids[at] = (int32_t)v->merged[best];
        memmove(ids + at + 1, ids + at + 2, (n - at - 2) * sizeof(*ids));
        n--;
    }
}

static void equals_the_definition(void **state) {
    uint64_t random = 3;
    slc_bpe_work work = {0};

    for (int round = 0; round < 3000; round++) {
        uint32_t n_letters = 1 + next_random(&random) % 4;
        int32_t got[200], want[200];
        size_t n = 1 + next_random(&random) % 200, n_want;
        slc_vocab v;
        slc_err err = {0};

        random_vocab(&v, &random, n_letters, next_random(&random) % 30);
        for (size_t i = 0; i < n; i++)
            got[i] = want[i] = (int32_t)(next_random(&random) % n_letters);
        n_want = merge_by_definition(&v, want, n);
        assert_int_equal(slc_bpe_merge(&v, &work, got, &n, &err), SLC_OK);
        assert_int_equal(n, n_want);
        assert_memory_equal(got, want, n * sizeof(*got));
        slc_vocab_deinit(&v);
    }
    slc_bpe_work_deinit(&work);
}

static void the_last_of_equal_merges_counts(void **state) {
    slc_vocab v = {0};
    slc_err err = {0};

    assert_int_equal(slc_vocab_add(&v, 0, "a", 1, true, &err), SLC_OK);
    assert_int_equal(slc_vocab_add(&v, 1, "aa", 2, true, &err), SLC_OK);
    for (int i = 0; i < 3; i++) assert_int_equal(slc_vocab_add_merge(&v, 0, 0, 1, &err), SLC_OK);
    assert_int_equal(slc_vocab_rank(&v, 0, 0), 2);
    assert_int_equal(slc_vocab_rank(&v, 0, 1), UINT32_MAX);
    slc_vocab_deinit(&v);
}

/* CPU time for one piece of n bytes that repeats `word`, the best of five. */
static uint64_t time_piece(const slc_vocab *v, const char *word, size_t n) {
    int32_t *ids = calloc(n, sizeof(*ids));
    uint64_t best = UINT64_MAX;

    assert_non_null(ids);
    for (int round = 0; round < 5; round++) {
        slc_bpe_work work = {0};
        size_t n_ids = n;
        slc_err err = {0};
        uint64_t start;

        for (size_t i = 0; i < n; i++) ids[i] = word[i % strlen(word)] - 'a';
        start = cpu_ns();
        assert_int_equal(slc_bpe_merge(v, &work, ids, &n_ids, &err), SLC_OK);
        start = cpu_ns() - start;
        if (start < best) best = start;
        assert_true(n_ids < n);
        slc_bpe_work_deinit(&work);
    }
    free(ids);
    return best;
}

/* a, b, aa, aaaa, ..., ab, abab, ...: every level of a long run merges. */
static void doubling_vocab(slc_vocab *v) {
    slc_err err = {0};
    char text[64];
    int32_t a, b;

    *v = (slc_vocab){0};
    assert_int_equal(slc_vocab_add(v, 0, "a", 1, true, &err), SLC_OK);
    assert_int_equal(slc_vocab_add(v, 1, "b", 1, true, &err), SLC_OK);
    for (size_t k = 0; k < sizeof(text); k++) text[k] = k % 2 ? 'b' : 'a';
    assert_int_equal(slc_vocab_add(v, 2, text, 2, true, &err), SLC_OK);
    assert_int_equal(slc_vocab_add_merge(v, 0, 1, 2, &err), SLC_OK);
    for (a = 2, b = 3; b < 7; a = b++) {
        assert_int_equal(slc_vocab_add(v, b, text, (size_t)2 << (b - 2), true, &err), SLC_OK);
        assert_int_equal(slc_vocab_add_merge(v, a, a, b, &err), SLC_OK);
    }
    memset(text, 'a', sizeof(text));
    for (a = 0; b < 13; a = b++) {
        assert_int_equal(slc_vocab_add(v, b, text, (size_t)2 << (b - 7), true, &err), SLC_OK);
        assert_int_equal(slc_vocab_add_merge(v, a, a, b, &err), SLC_OK);
    }
}

static void d05_time_grows_with_n_log_n(void **state) {
    static const char *const words[] = {"a", "ab"};
    slc_vocab v;

    doubling_vocab(&v);
    for (int w = 0; w < 2; w++) {
        uint64_t t64 = time_piece(&v, words[w], 64 << 10);
        uint64_t t128 = time_piece(&v, words[w], 128 << 10);
        uint64_t t256 = time_piece(&v, words[w], 256 << 10);

        print_message("%s: %lu, %lu, %lu us\n", words[w], t64 / 1000, t128 / 1000, t256 / 1000);
        /* two doublings: 2.5 each would be 6.25; quadratic time would be 16 */
        if ((double)t256 > 6.25 * (double)t64)
            fail_msg("64 KiB took %lu ns, 256 KiB %lu ns", t64, t256);
    }
    slc_vocab_deinit(&v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_definition),
        cmocka_unit_test(the_last_of_equal_merges_counts),
        cmocka_unit_test(d05_time_grows_with_n_log_n),
    };
    return cmocka_run_group_tests_name("text.bpe", tests, NULL, NULL);
}
