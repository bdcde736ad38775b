/* Opening files, direct reads where they work, and reads through the page cache. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/file.h"
#include "support/faults.h"
#include "support/temp.h"

#define SIZE 100001u

typedef struct world {
    char *dir, *path;
    uint8_t bytes[SIZE];
    faults faults;
    slc_file file;
    slc_err err;
} world;

static int setup(void **state) {
    world *w = calloc(1, sizeof(*w));
    uint32_t random = 7;

    for (uint32_t i = 0; i < SIZE; i++) w->bytes[i] = (uint8_t)faults_random(&random);
    w->dir = temp_dir();
    w->path = temp_write(w->dir, "data", w->bytes, SIZE);
    faults_init(&w->faults);
    assert_int_equal(slc_file_open_with(&w->file, w->path, &w->faults.sys, &w->err), SLC_OK);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;

    slc_file_close(&w->file);
    assert_int_equal(w->faults.n_open, 0);
    free(w->path);
    temp_dir_remove(w->dir);
    free(w);
    return 0;
}

static const char *enable(world *w) {
    const char *why;

    slc_file_enable_direct(&w->file, &why);
    assert_int_equal(why == NULL, w->file.direct_fd >= 0);
    if (why) assert_int_equal(w->file.align, 1);
    return why;
}

static void read_gives_the_bytes(void **state) {
    world *w = *state;
    uint8_t *got = malloc(SIZE);

    w->faults.short_every = 3;
    w->faults.eintr_every = 4;
    assert_int_equal(w->file.size_bytes, SIZE);
    assert_int_equal(slc_file_read(&w->file, 0, got, SIZE, &w->err), SLC_OK);
    assert_memory_equal(got, w->bytes, SIZE);
    assert_int_equal(slc_file_read(&w->file, 12345, got, 777, &w->err), SLC_OK);
    assert_memory_equal(got, w->bytes + 12345, 777);
    free(got);
}

static void read_past_the_end_names_all(void **state) {
    world *w = *state;
    uint8_t got[200];

    assert_int_equal(slc_file_read(&w->file, SIZE - 100, got, 200, &w->err), SLC_E_IO);
    assert_int_equal(w->err.sys_errno, 0);
    assert_non_null(strstr(w->err.msg, w->path));
    assert_non_null(strstr(w->err.msg, "wanted 200"));
    assert_non_null(strstr(w->err.msg, "offset 99901"));
    assert_non_null(strstr(w->err.msg, "got 100"));
}

static void read_survives_a_passing_error(void **state) {
    world *w = *state;
    uint8_t got[100];

    w->faults.bad_len = SIZE;
    w->faults.bad_errno = EIO;
    w->faults.bad_times = 2;
    assert_int_equal(slc_file_read(&w->file, 0, got, 100, &w->err), SLC_OK);
    assert_memory_equal(got, w->bytes, 100);
    w->faults.bad_times = 1000;
    assert_int_equal(slc_file_read(&w->file, 0, got, 100, &w->err), SLC_E_IO);
    assert_int_equal(w->err.sys_errno, EIO);
}

/* io_uring would give EAGAIN instead of waiting for the disk. */
static void descriptors_are_left_blocking(void **state) {
    world *w = *state;

    assert_false(fcntl(w->file.fd, F_GETFL) & O_NONBLOCK);
    if (!enable(w)) assert_false(fcntl(w->file.direct_fd, F_GETFL) & O_NONBLOCK);
}

/* Both descriptors are of one file, whatever the path names by then. */
static void a_file_replaced_while_opened_stays_buffered(void **state) {
    world *w = *state;
    char *other = temp_write(w->dir, "other", w->bytes, SIZE);
    uint8_t got[100];
    const char *why;

    assert_int_equal(rename(other, w->path), 0);
    why = enable(w);
    assert_non_null(why);
    if (!strstr(why, "refuses O_DIRECT")) assert_non_null(strstr(why, "replaced"));
    assert_int_equal(slc_file_read(&w->file, 500, got, 100, &w->err), SLC_OK);
    assert_memory_equal(got, w->bytes + 500, 100);
    free(other);
}

static void b21_changes_are_noticed_new_names_are_not(void **state) {
    world *w = *state;
    struct timespec then[2] = {{.tv_sec = 1000000000, .tv_nsec = 123456789}, {0}};
    char *other = temp_write(w->dir, "other", w->bytes, 10);

    then[1] = then[0];
    assert_int_equal(slc_file_check(&w->file, &w->err), SLC_OK);
    assert_int_equal(rename(other, w->path), 0);
    assert_int_equal(slc_file_check(&w->file, &w->err), SLC_OK);
    assert_int_equal(unlink(w->path), 0);
    assert_int_equal(slc_file_check(&w->file, &w->err), SLC_OK);
    assert_int_equal(futimens(w->file.fd, then), 0);
    assert_int_equal(slc_file_check(&w->file, &w->err), SLC_E_IO);
    assert_non_null(strstr(w->err.msg, w->path));
    assert_non_null(strstr(w->err.msg, "last written at 2001-09-09 01:46:40.123456789 UTC, exp"));
    free(other);
}

static void b21_a_length_that_changed_is_told(void **state) {
    world *w = *state;

    assert_int_equal(truncate(w->path, 1000), 0);
    assert_int_equal(slc_file_check(&w->file, &w->err), SLC_E_IO);
    assert_non_null(strstr(w->err.msg, "1000 bytes long, expected 100001;"));
    w->err = (slc_err){0};
    w->faults.fstat_errno = ESTALE;
    assert_int_equal(slc_file_check(&w->file, &w->err), SLC_E_IO);
    assert_int_equal(w->err.sys_errno, ESTALE);
}

static void open_failures_name_the_path(void **state) {
    world *w = *state;
    char *fifo = temp_path(w->dir, "fifo");
    slc_file f;

    assert_int_equal(slc_file_open(&f, "/no/such/file", &w->err), SLC_E_IO);
    assert_string_equal(w->err.msg, "/no/such/file: cannot open: No such file or directory");
    w->err = (slc_err){0};
    assert_int_equal(slc_file_open(&f, w->dir, &w->err), SLC_E_IO);
    assert_non_null(strstr(w->err.msg, "not a regular file"));
    w->err = (slc_err){0};
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(slc_file_open(&f, fifo, &w->err), SLC_E_IO);
    assert_non_null(strstr(w->err.msg, "not a regular file"));
    w->err = (slc_err){0};
    w->faults.fstat_errno = EINVAL; /* b07: some stacked file systems */
    assert_int_equal(slc_file_open_with(&f, w->path, &w->faults.sys, &w->err), SLC_E_IO);
    assert_non_null(strstr(w->err.msg, w->path));
    free(fifo);
}

static void b13_too_many_open_files_says_what_helps(void **state) {
    world *w = *state;
    struct rlimit old, none = {0};
    slc_file f;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    none.rlim_max = old.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_int_equal(slc_file_open(&f, w->path, &w->err), SLC_E_IO);
    assert_int_equal(w->err.sys_errno, EMFILE);
    assert_non_null(strstr(w->err.msg, "ulimit -n"));
    assert_non_null(enable(w));
    slc_file_allowance(1);
    assert_int_equal(slc_file_open(&f, w->path, NULL), SLC_OK);
    slc_file_close(&f);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

/* Half of a small limit, all but SLC_FILE_ROOM of a large one. */
static void b13_room_is_left_for_others(void **state) {
    struct rlimit old, lim;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    if (old.rlim_max < 1024) skip();
    lim = (struct rlimit){64, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &lim), 0);
    assert_int_equal(slc_file_allowance(32), 32);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &lim), 0);
    assert_int_equal(lim.rlim_cur, 64);
    assert_int_equal(slc_file_allowance(33), old.rlim_max - SLC_FILE_ROOM);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &lim), 0);
    assert_int_equal(lim.rlim_cur, old.rlim_max);
    assert_int_equal(slc_file_limit_for(32), 64);
    assert_int_equal(slc_file_limit_for(300), 300 + SLC_FILE_ROOM);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

static void b28_network_file_systems_are_told_apart(void **state) {
    static const struct {
        uint32_t type;
        const char *name;
    } kinds[] = {{0x6969, "NFS"},      {0x517b, "SMB"},    {0xff534d42, "SMB"}, {0xfe534d42, "SMB"},
                 {0x65735546, "FUSE"}, {0x01021997, "9P"}, {0x00c36400, "Ceph"}};
    world *w = *state;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        w->faults.fs_type = kinds[i].type;
        assert_string_equal(slc_file_remote(&w->file), kinds[i].name);
    }
    w->faults.fs_type = 0xef53; /* ext4 */
    assert_null(slc_file_remote(&w->file));
}

static void direct_reads_are_proven(void **state) {
    world *w = *state;
    const char *why = enable(w);

    if (why) {
        print_message("no direct reads below %s: %s\n", w->dir, why);
        skip();
    }
    assert_true(w->file.align >= 512 && (w->file.align & (w->file.align - 1)) == 0);
    assert_null(enable(w)); /* again: nothing changes, nothing leaks */
    assert_int_equal(w->faults.n_open, 2);
}

static void b05_refused_open_stays_buffered(void **state) {
    world *w = *state;

    w->faults.direct_open_errno = EINVAL;
    assert_non_null(enable(w));
}

static void b07_refused_read_stays_buffered(void **state) {
    world *w = *state;

    w->faults.direct_read_errno = EINVAL;
    assert_non_null(enable(w));
    assert_int_equal(w->faults.n_open, 1);
    w->faults.direct_read_errno = 0;
    w->faults.claimed_align = -1;
    assert_non_null(enable(w));
    w->faults.claimed_align = 3 * 512;
    assert_non_null(enable(w));
}

static void b08_alignment_that_is_too_small_is_found_out(void **state) {
    world *w = *state;
    const char *why;
    slc_file real;

    assert_int_equal(slc_file_open(&real, w->path, &w->err), SLC_OK);
    slc_file_enable_direct(&real, &why);
    slc_file_close(&real);
    if (why) skip();
    w->faults.claimed_align = 512;
    w->faults.min_align = 4096;
    assert_null(enable(w));
    assert_int_equal(w->file.align, 4096);
}

static void files_in_memory_stay_buffered(void **state) {
    world *w = *state;
    char name[] = "/dev/shm/sluice-test-XXXXXX";
    int fd = mkstemp(name);
    slc_file f;
    const char *why;

    if (fd < 0) skip();
    assert_int_equal(write(fd, w->bytes, SIZE), SIZE);
    assert_int_equal(slc_file_open(&f, name, &w->err), SLC_OK);
    slc_file_enable_direct(&f, &why);
    unlink(name);
    assert_non_null(why);
    assert_int_equal(f.direct_fd, -1);
    slc_file_close(&f);
    close(fd);
}

static void tiny_and_empty_files_work(void **state) {
    world *w = *state;

    for (uint32_t size = 0; size <= 513; size += size ? 512 : 1) {
        char *path = temp_write(w->dir, "tiny", w->bytes, size);
        const char *why;
        slc_file f;
        assert_int_equal(slc_file_open(&f, path, &w->err), SLC_OK);
        slc_file_enable_direct(&f, &why);
        assert_int_equal(why == NULL, f.direct_fd >= 0);
        slc_file_close(&f);
        slc_file_close(&f); /* closed twice is fine */
        free(path);
    }
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(read_gives_the_bytes),
        CASE(read_past_the_end_names_all),
        CASE(read_survives_a_passing_error),
        CASE(descriptors_are_left_blocking),
        CASE(a_file_replaced_while_opened_stays_buffered),
        CASE(b21_changes_are_noticed_new_names_are_not),
        CASE(b21_a_length_that_changed_is_told),
        CASE(open_failures_name_the_path),
        CASE(b13_too_many_open_files_says_what_helps),
        CASE(b13_room_is_left_for_others),
        CASE(b28_network_file_systems_are_told_apart),
        CASE(direct_reads_are_proven),
        CASE(b05_refused_open_stays_buffered),
        CASE(b07_refused_read_stays_buffered),
        CASE(b08_alignment_that_is_too_small_is_found_out),
        CASE(files_in_memory_stay_buffered),
        CASE(tiny_and_empty_files_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
