/* Making a folder all or nothing. Only names that a checkpoint has are ever removed: a partial
 * folder that holds anything else is somebody's, and left alone. */
#include "convert/synth_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/fail.h"

/* ---- names ---- */

static slc_status make_paths(slc_synth_folder *f, const char *name, slc_err *err) {
    size_t n = strlen(name);

    while (n > 1 && name[n - 1] == '/') n--;
    if (n == 0) return slc_fail(err, SLC_E_INVALID, "expected the name of a folder, found none");
    f->path = strndup(name, n);
    if (!f->path || asprintf(&f->partial, "%s.partial", f->path) < 0) {
        f->partial = NULL;
        return slc_fail(err, SLC_E_NOMEM, "%s: no memory for the path", name);
    }
    return SLC_OK;
}

static bool is_checkpoint_file(const char *name) {
    static const char *const ends[] = {".safetensors", ".json", ".jinja", ".txt"};
    size_t n = strlen(name);

    for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
        size_t k = strlen(ends[i]);

        if (n > k && strcmp(name + n - k, ends[i]) == 0) return true;
    }
    return false;
}

static bool is_dots(const char *name) {
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* ---- what is there already ---- */

static slc_status check_free(const char *path, slc_err *err) {
    DIR *dir = opendir(path);
    const struct dirent *entry;
    bool empty = true;

    if (!dir && errno == ENOENT) return SLC_OK;
    if (!dir && errno == ENOTDIR)
        return slc_fail(err, SLC_E_INVALID,
                        "%s: expected a new or an empty folder, found a file; choose another name",
                        path);
    if (!dir) return slc_fail_errno(err, errno, "%s: cannot open", path);
    while (empty && (entry = readdir(dir))) empty = is_dots(entry->d_name);
    closedir(dir);
    if (empty) return SLC_OK;
    return slc_fail(err, SLC_E_INVALID,
                    "%s: expected a new or an empty folder, found one with files in it; remove "
                    "it or choose another name",
                    path);
}

/* Removes the files of an earlier run. */
static slc_status clear(const slc_synth_folder *f, slc_err *err) {
    int fd = openat(f->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;
    slc_status rc = SLC_OK;

    if (!dir) {
        rc = slc_fail_errno(err, errno, "%s: cannot read the folder", f->partial);
        if (fd >= 0) close(fd);
        return rc;
    }
    while (!rc && (entry = readdir(dir))) {
        if (is_dots(entry->d_name)) continue;
        if (!is_checkpoint_file(entry->d_name))
            rc = slc_fail(err, SLC_E_INVALID,
                          "%s: holds %s, which no checkpoint has; remove the folder, or choose "
                          "another name",
                          f->partial, entry->d_name);
        else if (unlinkat(f->fd, entry->d_name, 0))
            rc = slc_fail_errno(err, errno, "%s/%s: cannot remove", f->partial, entry->d_name);
    }
    closedir(dir);
    return rc;
}

static slc_status check_space(const slc_synth_folder *f, uint64_t need, slc_err *err) {
    struct statvfs fs;
    uint64_t space;

    if (fstatvfs(f->fd, &fs)) return SLC_OK; /* the write that fails will say so */
    if (__builtin_mul_overflow((uint64_t)fs.f_bavail, (uint64_t)fs.f_frsize, &space)) return SLC_OK;
    if (need <= space) return SLC_OK;
    return slc_fail(err, SLC_E_IO,
                    "%s: %" PRIu64 " bytes are needed, the file system has %" PRIu64
                    " left; free some, or write fewer layers",
                    f->path, need, space);
}

/* ---- the folder ---- */

static slc_status open_partial(slc_synth_folder *f, slc_err *err) {
    if (mkdir(f->partial, 0777) && errno != EEXIST)
        return slc_fail_errno(err, errno, "%s: cannot make the folder", f->partial);
    f->fd = open(f->partial, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->fd < 0) return slc_fail_errno(err, errno, "%s: cannot open", f->partial);
    if (flock(f->fd, LOCK_EX | LOCK_NB) == 0) return SLC_OK;
    close(f->fd);
    f->fd = -1; /* another process fills it: not ours to remove */
    return slc_fail(err, SLC_E_BUSY, "%s: another process is writing it", f->partial);
}

slc_status slc_synth_folder_open(slc_synth_folder *f, const char *name, uint64_t need_bytes,
                                 slc_err *err) {
    slc_status rc;

    *f = (slc_synth_folder){.fd = -1};
    if ((rc = make_paths(f, name, err))) goto out;
    if ((rc = check_free(f->path, err))) goto out;
    if ((rc = open_partial(f, err))) goto out;
    if ((rc = clear(f, err))) goto out;
    rc = check_space(f, need_bytes, err);
out:
    if (rc) slc_synth_folder_close(f);
    return rc;
}

/* The folder that holds `path`, flushed, so that the new name survives a power cut. */
static void sync_parent(const char *path) {
    const char *slash = strrchr(path, '/');
    char *parent = !slash          ? strdup(".")
                   : slash == path ? strdup("/")
                                   : strndup(path, (size_t)(slash - path));
    int fd = parent ? open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
    free(parent);
}

slc_status slc_synth_folder_finish(slc_synth_folder *f, slc_err *err) {
    if (fsync(f->fd)) return slc_fail_errno(err, errno, "%s: cannot flush", f->partial);
    if (rename(f->partial, f->path))
        return slc_fail_errno(err, errno, "%s: cannot rename %s", f->path, f->partial);
    sync_parent(f->path);
    close(f->fd);
    f->fd = -1;
    return SLC_OK;
}

void slc_synth_folder_close(slc_synth_folder *f) {
    if (f->partial && f->fd >= 0) {
        (void)clear(f, NULL);
        (void)rmdir(f->partial); /* stays if it holds what is not ours */
        close(f->fd);
    }
    free(f->path);
    free(f->partial);
    *f = (slc_synth_folder){.fd = -1};
}

/* ---- files ---- */

slc_status slc_synth_file_create(slc_synth_file *f, const slc_synth_folder *folder,
                                 const char *name, slc_err *err) {
    *f = (slc_synth_file){.folder = folder, .name = name};
    f->fd = openat(folder->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (f->fd >= 0) return SLC_OK;
    return slc_fail_errno(err, errno, "%s/%s: cannot create", folder->partial, name);
}

slc_status slc_synth_file_write(slc_synth_file *f, const void *bytes, size_t n, slc_err *err) {
    const uint8_t *from = bytes;
    uint64_t start = f->n_bytes;

    while (n) {
        ssize_t wrote = write(f->fd, from, n);

        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0)
            return slc_fail_errno(err, errno, "%s/%s: cannot write %zu bytes at offset %" PRIu64,
                                  f->folder->partial, f->name, n, f->n_bytes);
        from += wrote;
        n -= (size_t)wrote;
        f->n_bytes += (uint64_t)wrote;
    }
    (void)sync_file_range(f->fd, (off_t)start, (off_t)(f->n_bytes - start), SYNC_FILE_RANGE_WRITE);
    return SLC_OK;
}

slc_status slc_synth_file_finish(slc_synth_file *f, slc_err *err) {
    slc_status rc = SLC_OK;

    if (fdatasync(f->fd))
        rc = slc_fail_errno(err, errno, "%s/%s: cannot flush", f->folder->partial, f->name);
    slc_synth_file_close(f);
    return rc;
}

void slc_synth_file_close(slc_synth_file *f) {
    if (f->folder && f->fd >= 0) close(f->fd);
    f->fd = -1;
}

slc_status slc_synth_folder_put(const slc_synth_folder *folder, const char *name, const void *bytes,
                                size_t n, slc_err *err) {
    slc_synth_file f;
    slc_status rc = slc_synth_file_create(&f, folder, name, err);

    if (rc) return rc;
    rc = slc_synth_file_write(&f, bytes, n, err);
    if (!rc) rc = slc_synth_file_finish(&f, err);
    slc_synth_file_close(&f);
    return rc;
}
