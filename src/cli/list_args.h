/* Option values that are lists: "8G,12G", "10%,50%", "full,serial". */
#ifndef SLC_CLI_LIST_ARGS_H
#define SLC_CLI_LIST_ARGS_H

#include <stdbool.h>
#include <stdint.h>

#include "sluice/status.h"

#define SLC_LIST_MAX      16 /* items */
#define SLC_LIST_ITEM_MAX 64 /* bytes of one, with its end */

typedef struct slc_list {
    uint32_t n;
    char item[SLC_LIST_MAX][SLC_LIST_ITEM_MAX];
} slc_list;

/* Splits at commas. SLC_E_INVALID, naming --option, for an empty, a repeated or an overlong item,
 * or too many. `text` NULL: an empty list. */
slc_status slc_list_split(const char *option, const char *text, slc_list *out,
                          slc_err *err) SLC_MUST_CHECK;
/* As slc_list_split; every item must be one of "a|b|c". */
slc_status slc_list_choices(const char *option, const char *text, const char *choices,
                            slc_list *out, slc_err *err) SLC_MUST_CHECK;

/* A size in bytes, or a share of a whole. */
typedef struct slc_amount {
    uint64_t bytes; /* 0: a share */
    double share;   /* in (0, 1] */
} slc_amount;

/* "512M", or, where `shares` is set, "25%". */
slc_status slc_list_amount(const char *option, const char *item, bool shares, slc_amount *out,
                           slc_err *err) SLC_MUST_CHECK;
/* A whole number in [low, high]. */
slc_status slc_list_number(const char *option, const char *item, uint32_t low, uint32_t high,
                           uint32_t *out, slc_err *err) SLC_MUST_CHECK;

#endif
