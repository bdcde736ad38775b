/* A checkpoint that is nothing but experts: files of a known pattern, and extents at awkward places
 * (odd offsets, gaps, sizes that differ between experts, a file that ends inside a block). Linking
 * it gives the test its own slc_checkpoint_expert and slc_checkpoint_expert_bytes. */
#ifndef SLC_TESTS_SUPPORT_FAKE_MODEL_H
#define SLC_TESTS_SUPPORT_FAKE_MODEL_H

#include "format/checkpoint.h"
#include "stream/store.h"

typedef struct fake_model_options {
    uint32_t n_layers, n_experts, n_files;
    uint32_t part_bytes; /* largest part */
    bool direct;
    uint32_t seed;
    const slc_sys *sys; /* NULL: the real one */
} fake_model_options;

typedef struct fake_model {
    slc_checkpoint ckpt; /* first */
    char *temp;
    slc_extent *extents; /* [layer][expert][proj][part] */
} fake_model;

fake_model *fake_model_create(const fake_model_options *opt);
void fake_model_destroy(fake_model *m);

/* The byte that every file of a fake model has at `off`. */
uint8_t fake_model_byte(uint32_t file, uint64_t off);
/* Whether the view holds the expert, byte for byte. */
bool fake_model_matches(const fake_model *m, uint32_t layer, uint32_t expert,
                        const slc_expert_view *view);

#endif
