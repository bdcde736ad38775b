/* The list of policies. */
#include "stream/policy.h"

#include <string.h>

const slc_policy *const slc_policies[] = {&slc_policy_best, &slc_policy_lfu_decay, &slc_policy_lru,
                                          NULL};

const slc_policy *slc_policy_find(const char *name) {
    for (uint32_t i = 0; slc_policies[i]; i++) {
        if (!strcmp(slc_policies[i]->name, name)) return slc_policies[i];
    }
    return NULL;
}
