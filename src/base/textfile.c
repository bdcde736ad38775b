/* See the header. */
#include "base/textfile.h"

#include <limits.h>

FILE *slc_textfile_open(const char *dir, const char *name) {
    char path[4 * PATH_MAX];
    int n = snprintf(path, sizeof(path), "%s/%s", dir, name);

    return n > 0 && (size_t)n < sizeof(path) ? fopen(path, "re") : NULL;
}
