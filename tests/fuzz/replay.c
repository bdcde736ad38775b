/* Runs a fuzz harness over the files of a folder, as an ordinary test: each file, and each of its
 * prefixes where it is short, because cut files are the faults that really happen. */
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>

#include "fuzz/fuzz.h"
#include "support/temp.h"

enum { PREFIXES_UP_TO = 4096 };

static void replay(const char *path) {
    size_t n;
    uint8_t *bytes = (uint8_t *)temp_read(path, &n);

    LLVMFuzzerTestOneInput(bytes, n);
    for (size_t k = 0; n <= PREFIXES_UP_TO && k < n; k++) LLVMFuzzerTestOneInput(bytes, k);
    free(bytes);
}

int main(int argc, char **argv) {
    DIR *d = argc == 2 ? opendir(argv[1]) : NULL;
    struct dirent *e;
    unsigned n = 0;

    if (!d) {
        fprintf(stderr, "usage: %s CORPUS_FOLDER\n", argv[0]);
        return 2;
    }
    while ((e = readdir(d))) {
        char *path = temp_path(argv[1], e->d_name);

        if (e->d_name[0] != '.') {
            replay(path);
            n++;
        }
        free(path);
    }
    closedir(d);
    printf("%u inputs\n", n);
    return n ? 0 : 1;
}
