/* Comma-separated values, checked item by item. */
#include "cli/list_args.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "cli/args.h"

static slc_status add(const char *option, const char *text, size_t n, slc_list *out, slc_err *err) {
    char *item = out->item[out->n];

    if (n == 0)
        return slc_fail(err, SLC_E_INVALID, "option --%s: an item of the list is empty", option);
    if (n >= SLC_LIST_ITEM_MAX)
        return slc_fail(err, SLC_E_INVALID, "option --%s: '%.*s' is too long", option, 80, text);
    memcpy(item, text, n);
    item[n] = '\0';
    for (uint32_t i = 0; i < out->n; i++)
        if (!strcmp(out->item[i], item))
            return slc_fail(err, SLC_E_INVALID, "option --%s: '%s' stands there twice", option,
                            item);
    out->n++;
    return SLC_OK;
}

slc_status slc_list_split(const char *option, const char *text, slc_list *out, slc_err *err) {
    slc_status rc;

    out->n = 0;
    while (text) {
        size_t n = strcspn(text, ",");

        if (out->n == SLC_LIST_MAX)
            return slc_fail(err, SLC_E_INVALID, "option --%s: more than %d items", option,
                            SLC_LIST_MAX);
        if ((rc = add(option, text, n, out, err))) return rc;
        text = text[n] ? text + n + 1 : NULL;
    }
    return SLC_OK;
}

slc_status slc_list_choices(const char *option, const char *text, const char *choices,
                            slc_list *out, slc_err *err) {
    slc_status rc = slc_list_split(option, text, out, err);

    for (uint32_t i = 0; !rc && i < out->n; i++)
        if (!slc_args_is_choice(choices, out->item[i]))
            rc = slc_fail(err, SLC_E_INVALID, "option --%s: expected some of %s, found '%s'",
                          option, choices, out->item[i]);
    return rc;
}

slc_status slc_list_amount(const char *option, const char *item, bool shares, slc_amount *out,
                           slc_err *err) {
    size_t digits = strspn(item, "0123456789."), n = strlen(item);
    char *end;

    *out = (slc_amount){0};
    if (shares && digits && digits == n - 1 && item[n - 1] == '%') {
        out->share = strtod(item, &end) / 100;
        if (end == item + digits && out->share > 0 && out->share <= 1) return SLC_OK;
    } else if (slc_args_size(item, &out->bytes)) {
        return SLC_OK;
    }
    return slc_fail(err, SLC_E_INVALID,
                    "option --%s: expected a size such as 512M or 8G%s, found '%s'", option,
                    shares ? ", or a share such as 25%" : "", item);
}

slc_status slc_list_number(const char *option, const char *item, uint32_t low, uint32_t high,
                           uint32_t *out, slc_err *err) {
    size_t digits = strspn(item, "0123456789");
    unsigned long value = digits && digits < 10 && !item[digits] ? strtoul(item, NULL, 10) : 0;

    if (digits && digits < 10 && !item[digits] && value >= low && value <= high) {
        *out = (uint32_t)value;
        return SLC_OK;
    }
    return slc_fail(err, SLC_E_INVALID,
                    "option --%s: expected whole numbers from %u to %u, found '%s'", option, low,
                    high, item);
}
