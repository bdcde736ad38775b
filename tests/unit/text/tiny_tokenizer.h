/* A tokenizer.json made to measure: 256 byte tokens (id = byte) and the merges a test asks for. */
#ifndef SLC_TESTS_TINY_TOKENIZER_H
#define SLC_TESTS_TINY_TOKENIZER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/temp.h"
#include "text/tokenizer.h"

typedef struct tiny_merge {
    const char *left, *right; /* bytes; texts of earlier tokens */
} tiny_merge;

typedef struct tiny_options {
    const tiny_merge *merges; /* [n_merges]; merge i makes id 256 + i */
    size_t n_merges;
    const char *added; /* entries of added_tokens, "" for none */
    const char *model; /* options of the model, each ending in a comma; "" for none */
    const char *split; /* JSON string of the Split regex; NULL: ByteLevel without splitting */
    int missing;       /* a byte without token; -1 for none */
    bool nfc;
} tiny_options;

static void tiny_spell(FILE *f, const char *s) {
    for (; *s; s++) {
        uint8_t b = (uint8_t)*s;
        bool printable = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b != 0xad);
        int before = 0;

        if (printable && (b == '"' || b == '\\')) {
            fprintf(f, "\\%c", b);
            continue;
        }
        for (int c = 0; c < b; c++)
            before += !((c >= 0x21 && c <= 0x7e) || (c >= 0xa1 && c != 0xad));
        fprintf(f, "\\u%04x", printable ? b : 0x100 + before);
    }
}

static void tiny_vocab(FILE *f, const tiny_options *o) {
    char byte[2] = {0, 0};

    for (int b = 1; b < 256; b++) { /* NUL last: tiny_spell takes terminated strings */
        byte[0] = (char)b;
        if (b == o->missing) continue;
        fprintf(f, "\"");
        tiny_spell(f, byte);
        fprintf(f, "\": %d, ", b);
    }
    for (size_t i = 0; i < o->n_merges; i++) {
        fprintf(f, "\"");
        tiny_spell(f, o->merges[i].left);
        tiny_spell(f, o->merges[i].right);
        fprintf(f, "\": %zu, ", 256 + i);
    }
    fprintf(f, "\"\\u0100\": 0");
}

static slc_tokenizer *tiny_open(const tiny_options *o) {
    char *dir = temp_dir(), *path = temp_path(dir, "tokenizer.json");
    FILE *f = fopen(path, "w");
    slc_tokenizer *t;
    slc_err err = {0};

    fprintf(
        f,
        "{\"added_tokens\": [%s], \"normalizer\": %s, \"pre_tokenizer\": {\"type\": \"Sequence\", "
        "\"pretokenizers\": [",
        o->added, o->nfc ? "{\"type\": \"NFC\"}" : "null");
    if (o->split)
        fprintf(f,
                "{\"type\": \"Split\", \"pattern\": {\"Regex\": %s}, \"behavior\": \"Isolated\", "
                "\"invert\": false}, ",
                o->split);
    fprintf(f,
            "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}]}, "
            "\"model\": {\"type\": \"BPE\", %s \"vocab\": {",
            o->model);
    tiny_vocab(f, o);
    fprintf(f, "}, \"merges\": [");
    for (size_t i = 0; i < o->n_merges; i++) {
        fprintf(f, i ? ", [\"" : "[\"");
        tiny_spell(f, o->merges[i].left);
        fprintf(f, "\", \"");
        tiny_spell(f, o->merges[i].right);
        fprintf(f, "\"]");
    }
    fprintf(f, "]}}");
    fclose(f);
    if (slc_tokenizer_open(path, &t, &err)) fail_msg("%s", err.msg);
    free(path);
    temp_dir_remove(dir);
    return t;
}

#endif
