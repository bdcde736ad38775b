/* Temporary folders and files for tests. */
#include "support/temp.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *must(void *p, const char *what) {
    if (p) return p;
    perror(what);
    abort();
}

char *temp_dir(void) {
    const char *root = getenv("TMPDIR");
    char *path = NULL;

    if (asprintf(&path, "%s/sluice-test-XXXXXX", root && *root ? root : "/tmp") < 0) abort();
    return must(mkdtemp(path), "mkdtemp");
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

void temp_dir_remove(char *dir) {
    if (dir) nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(dir);
}

char *temp_path(const char *dir, const char *name) {
    char *path = NULL;

    if (asprintf(&path, "%s/%s", dir, name) < 0) abort();
    return path;
}

char *temp_write(const char *dir, const char *name, const void *bytes, size_t n) {
    char *path = temp_path(dir, name);
    FILE *f = must(fopen(path, "wb"), path);

    if (fwrite(bytes, 1, n, f) != n || fclose(f)) must(NULL, path);
    return path;
}

char *temp_read(const char *path, size_t *n) {
    FILE *f = must(fopen(path, "rb"), path);
    size_t used = 0, cap = 4096, got;
    char *buf = must(malloc(cap), "malloc");

    while ((got = fread(buf + used, 1, cap - used - 1, f)) > 0) {
        used += got;
        if (cap - used - 1 == 0) buf = must(realloc(buf, cap *= 2), "realloc");
    }
    fclose(f);
    buf[used] = 0;
    if (n) *n = used;
    return buf;
}

void temp_put(const char *root, const char *name, const char *text) {
    char *path = temp_path(root, name);

    for (char *p = path + strlen(root) + 1; (p = strchr(p, '/')); *p++ = '/') {
        *p = 0;
        mkdir(path, 0755);
    }
    free(path);
    free(temp_write(root, name, text, strlen(text)));
}
