/* tok_dump TOKENIZER.JSON [plain]: encodes texts from standard input, each ended by a NUL byte, and
 * prints a line of ids for each. With `plain`, added tokens in the texts are ordinary text. With no
 * text at all it is a way to time loading. Used by tools/reference/tokenizer_vectors.py --fuzz. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/tokenizer.h"

static int dump(const slc_tokenizer *t, const char *text, size_t n, bool special) {
    slc_err err = {0};
    int32_t *ids;
    size_t n_ids;

    if (slc_tokenizer_encode(t, text, n, special, &ids, &n_ids, &err)) {
        fprintf(stderr, "tok_dump: %s\n", err.msg);
        return 1;
    }
    for (size_t i = 0; i < n_ids; i++) printf(i ? " %d" : "%d", ids[i]);
    putchar('\n');
    free(ids);
    return 0;
}

int main(int argc, char **argv) {
    bool special = argc < 3 || strcmp(argv[2], "plain") != 0;
    slc_tokenizer *t;
    slc_err err = {0};
    char *text = NULL;
    size_t cap = 0;
    ssize_t n;
    int rc = 0;

    if (argc < 2) {
        fprintf(stderr, "usage: tok_dump TOKENIZER.JSON [plain] < texts\n");
        return 2;
    }
    if (slc_tokenizer_open(argv[1], &t, &err)) {
        fprintf(stderr, "tok_dump: %s\n", err.msg);
        return 1;
    }
    while (!rc && (n = getdelim(&text, &cap, 0, stdin)) > 0)
        rc = dump(t, text, (size_t)n - (text[n - 1] == 0), special);
    free(text);
    slc_tokenizer_close(t);
    return rc;
}
