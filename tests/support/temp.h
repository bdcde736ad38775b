/* Temporary folders and files for tests. Every function aborts the test program on failure. */
#ifndef SLC_TESTS_SUPPORT_TEMP_H
#define SLC_TESTS_SUPPORT_TEMP_H

#include <stddef.h>

/* A new folder under $TMPDIR or /tmp; the path is malloc'd. */
char *temp_dir(void);
/* Removes a folder and all in it, and frees the path. */
void temp_dir_remove(char *dir);
/* dir/name, malloc'd. */
char *temp_path(const char *dir, const char *name);
/* Writes dir/name (overwriting); returns its malloc'd path. */
char *temp_write(const char *dir, const char *name, const void *bytes, size_t n);
/* Whole file, malloc'd and NUL-terminated; *n may be NULL. */
char *temp_read(const char *path, size_t *n);

/* Writes a text file below root, making its folders. */
void temp_put(const char *root, const char *name, const char *text);

#endif
