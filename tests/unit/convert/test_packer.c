/* Making packs: what comes out equals what went in, and whatever goes wrong on the way leaves
 * either the finished file or nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "convert/packer.h"
#include "format/pack.h"
#include "support/temp.h"
#include "support/tiny_ckpt.h"

static char *dir;                   /* of the running test */
static char *model, *out, *partial; /* dir/model, dir/out.pack, dir/out.pack.partial */

static int new_dir(void **state) {
    dir = temp_dir();
    model = temp_path(dir, "model");
    out = temp_path(dir, "out.pack");
    partial = temp_path(dir, "out.pack.partial");
    assert_int_equal(mkdir(model, 0777), 0);
    return 0;
}

static int remove_dir(void **state) {
    free(model);
    free(out);
    free(partial);
    temp_dir_remove(dir);
    return 0;
}

/* ---- helpers ---- */

static void put_model(tiny_options opt) {
    tiny_ckpt *t = tiny_create(opt);

    tiny_write(t, model);
    tiny_destroy(t);
    free(temp_write(model, "tokenizer.json", "{\"no\": \"tokenizer\"}", 19));
    free(temp_write(model, "chat_template.jinja", "", 0));
}

static slc_status try_pack(const slc_pack_options *opt, const slc_out_sys *sys, slc_err *err) {
    slc_status rc;

    *err = (slc_err){0};
    rc = slc_pack_write_with(model, out, opt, sys, err);
    assert_int_equal(rc, err->code);
    return rc;
}

static void must_pack(void) {
    slc_pack_options opt = slc_pack_options_default();
    slc_err err;

    opt.verify = true;
    if (try_pack(&opt, &slc_out_sys_linux, &err)) fail_msg("%s", err.msg);
    assert_int_equal(access(partial, F_OK), -1);
}

static void must_not_pack(const slc_pack_options *opt, const slc_out_sys *sys, slc_status code,
                          const char *says) {
    slc_err err;

    if (try_pack(opt, sys, &err) != code)
        fail_msg("got %d (%s), expected %d", err.code, err.msg, code);
    if (!strstr(err.msg, says)) fail_msg("\"%s\" does not say \"%s\"", err.msg, says);
}

static slc_checkpoint *must_open(const char *path) {
    slc_checkpoint *c;
    slc_err err = {0};

    if (slc_checkpoint_open(path, NULL, &c, &err)) fail_msg("%s", err.msg);
    return c;
}

static uint8_t *bytes_of(const slc_checkpoint *c, slc_extent e) {
    uint8_t *p = malloc(e.bytes + 1);
    slc_err err = {0};

    assert_non_null(p);
    if (slc_file_read(&c->files[e.file], e.off, p, e.bytes, &err)) fail_msg("%s", err.msg);
    return p;
}

static void expect_same(const slc_checkpoint *a, slc_extent x, const slc_checkpoint *b,
                        slc_extent y) {
    uint8_t *p, *q;

    assert_int_equal(x.bytes, y.bytes);
    p = bytes_of(a, x);
    q = bytes_of(b, y);
    assert_memory_equal(p, q, x.bytes);
    if (x.bytes) assert_int_equal(y.off % SLC_PACK_PART_ALIGN, 0);
    free(p);
    free(q);
}

static void expect_same_weight(const slc_checkpoint *a, const slc_weight *x,
                               const slc_checkpoint *b, const slc_weight *y) {
    assert_memory_equal(&x->type, &y->type, sizeof(x->type));
    for (int part = 0; part < SLC_N_PARTS; part++) expect_same(a, x->part[part], b, y->part[part]);
}

static void expect_same_experts(const slc_checkpoint *a, const slc_checkpoint *b) {
    for (uint32_t l = 0; l < a->cfg.n_layers; l++) {
        assert_memory_equal(a->layers[l].expert, b->layers[l].expert, sizeof(a->layers[l].expert));
        for (uint32_t e = 0; e < a->cfg.n_experts; e++) {
            slc_extent record = slc_checkpoint_expert_record(b, l, e);

            assert_int_equal(record.off % SLC_PACK_EXPERT_ALIGN, 0);
            assert_int_equal(slc_checkpoint_expert_record(a, l, e).bytes, 0);
            for (int i = 0; i < SLC_N_PROJ * SLC_N_PARTS; i++) {
                int proj = i / SLC_N_PARTS, part = i % SLC_N_PARTS;
                slc_extent x = slc_checkpoint_expert(b, l, e, proj, part);

                expect_same(a, slc_checkpoint_expert(a, l, e, proj, part), b, x);
                if (!x.bytes) continue;
                assert_true(x.off >= record.off);
                assert_true(x.off + x.bytes <= record.off + record.bytes);
            }
        }
    }
}

/* The pack holds what the folder holds. */
static void expect_same_model(void) {
    slc_checkpoint *a = must_open(model), *b = must_open(out);

    assert_memory_equal(&a->cfg, &b->cfg, sizeof(a->cfg));
    assert_int_equal(a->norms_are_raw, b->norms_are_raw);
    assert_int_equal(a->ignored_bytes, b->ignored_bytes);
    assert_int_equal(b->n_files, 1);
    for (int w = 0; w < SLC_W_N_MODEL; w++) expect_same_weight(a, &a->w[w], b, &b->w[w]);
    for (uint32_t l = 0; l < a->cfg.n_layers; l++)
        for (int w = 0; w < SLC_W_N_LAYER; w++)
            expect_same_weight(a, &a->layers[l].w[w], b, &b->layers[l].w[w]);
    expect_same_experts(a, b);
    for (int kind = 0; kind < SLC_N_TEXTS; kind++) {
        char *x, *y;
        size_t n, m;
        slc_err err = {0};

        assert_int_equal(slc_side_text_read(a, (slc_text_kind)kind, 1 << 20, &x, &n, &err), 0);
        assert_int_equal(slc_side_text_read(b, (slc_text_kind)kind, 1 << 20, &y, &m, &err), 0);
        assert_int_equal(!x, !y);
        assert_int_equal(n, m);
        if (x) assert_memory_equal(x, y, n);
        free(x);
        free(y);
    }
    slc_checkpoint_close(a);
    slc_checkpoint_close(b);
}

static const slc_pack_options plain = {0};

/* ---- what comes out ---- */

static void every_layout_comes_out_as_it_went_in(void **state) {
    static const tiny_options models[] = {
        {.bits = 4},
        {.bits = 3, .layout = TINY_SEPARATE},
        {.bits = 8, .layout = TINY_FUSED, .n_files = 3},
        {.layout = TINY_FUSED, .raw_conv = true},
        {.layout = TINY_SEPARATE, .n_files = 5},
        {.bits = 5, .n_experts = 7, .n_layers = 8},
    };

    for (size_t i = 0; i < sizeof(models) / sizeof(*models); i++) {
        put_model(models[i]);
        must_pack();
        expect_same_model();
        remove_dir(state);
        new_dir(state);
    }
}

static void the_same_model_makes_the_same_file(void **state) {
    char *first, *second;
    size_t n, m;

    put_model((tiny_options){.bits = 4});
    must_pack();
    first = temp_read(out, &n);
    assert_int_equal(unlink(out), 0);
    must_pack();
    second = temp_read(out, &m);
    assert_int_equal(n, m);
    assert_memory_equal(first, second, n);
    free(first);
    free(second);
}

static void origins_are_told(void **state) {
    slc_pack_info info;
    slc_err err = {0};
    struct stat st;
    char *shard;

    put_model((tiny_options){.bits = 4, .n_files = 2});
    must_pack();
    assert_int_equal(slc_pack_inspect(out, &info, &err), SLC_OK);
    assert_true(info.is_pack);
    assert_int_equal(info.version, 1);
    assert_int_equal(info.n_origins, 2);
    shard = temp_path(model, info.origins[1].name);
    assert_int_equal(stat(shard, &st), 0);
    assert_int_equal(info.origins[1].bytes, st.st_size);
    assert_int_equal(info.origins[1].mtime_s, st.st_mtim.tv_sec);
    assert_int_equal(info.origins[1].mtime_ns, st.st_mtim.tv_nsec);
    assert_int_not_equal(info.origins[0].header_hash, info.origins[1].header_hash);
    free(shard);
    slc_pack_info_deinit(&info);
    assert_int_equal(slc_pack_inspect(model, &info, &err), SLC_OK);
    assert_false(info.is_pack);
    slc_pack_info_deinit(&info);
}

static void a_pack_is_no_source(void **state) {
    slc_pack_options opt = {0};
    slc_err err = {0};

    put_model((tiny_options){.bits = 4});
    must_pack();
    assert_int_equal(slc_pack_write(out, partial, &opt, &err), SLC_E_INVALID);
    assert_non_null(strstr(err.msg, "a pack already"));
}

/* ---- the target ---- */

static void an_existing_target_needs_force_and_must_be_a_pack(void **state) {
    slc_pack_options force = {.force = true};

    put_model((tiny_options){.bits = 4});
    must_pack();
    must_not_pack(&plain, &slc_out_sys_linux, SLC_E_INVALID, "--force");
    put_model((tiny_options){.bits = 8});
    {
        slc_err err;
        if (try_pack(&force, &slc_out_sys_linux, &err)) fail_msg("%s", err.msg);
    }
    expect_same_model();
    free(temp_write(dir, "out.pack", "my letters", 10));
    must_not_pack(&force, &slc_out_sys_linux, SLC_E_INVALID, "not replaced");
    assert_int_equal(unlink(out), 0);
    assert_int_equal(mkdir(out, 0777), 0);
    must_not_pack(&force, &slc_out_sys_linux, SLC_E_INVALID, "a folder");
    assert_int_equal(access(partial, F_OK), -1);
}

static void a_stale_partial_is_replaced_a_foreign_one_is_not(void **state) {
    char big[100000] = "SLCPART\n";

    put_model((tiny_options){.bits = 4});
    free(temp_write(dir, "out.pack.partial", big, sizeof(big)));
    must_pack();
    expect_same_model();
    assert_int_equal(unlink(out), 0);
    free(temp_write(dir, "out.pack.partial", "", 0)); /* killed before its first byte */
    must_pack();
    assert_int_equal(unlink(out), 0);
    free(temp_write(dir, "out.pack.partial", "my letters", 10));
    must_not_pack(&plain, &slc_out_sys_linux, SLC_E_INVALID, "not what an interrupted run leaves");
    assert_int_equal(unlink(partial), 0);
    assert_int_equal(symlink("/dev/null", partial), 0);
    must_not_pack(&plain, &slc_out_sys_linux, SLC_E_IO, "partial");
}

static void a_partial_that_is_being_written_is_left_alone(void **state) {
    int fd;

    put_model((tiny_options){.bits = 4});
    free(temp_write(dir, "out.pack.partial", "SLCPART\n", 8));
    fd = open(partial, O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    must_not_pack(&plain, &slc_out_sys_linux, SLC_E_BUSY, "another process");
    assert_int_equal(access(partial, F_OK), 0);
    close(fd);
}

/* ---- a disk that fails ---- */

typedef struct bad_disk {
    slc_out_sys sys;
    int fail_write, fail_errno; /* the n-th write from 1 on */
    int n_writes;
    int allocate_errno, sync_errno;
    int64_t free_bytes; /* -2: the truth */
    bool halves;        /* writes half of what it is given */
    void (*on_write)(int n);
} bad_disk;

static ssize_t bad_pwrite(const slc_out_sys *sys, int fd, const void *buf, size_t n, off_t off) {
    bad_disk *b = (bad_disk *)(uintptr_t)sys;

    b->n_writes++;
    if (b->on_write) b->on_write(b->n_writes);
    if (b->n_writes == b->fail_write) {
        errno = b->fail_errno;
        return b->fail_errno ? -1 : 0;
    }
    return pwrite(fd, buf, b->halves && n > 1 ? n / 2 : n, off);
}

static int bad_allocate(const slc_out_sys *sys, int fd, off_t bytes) {
    const bad_disk *b = (const bad_disk *)sys;

    errno = b->allocate_errno;
    return errno ? -1 : posix_fallocate(fd, 0, bytes);
}

static int bad_sync(const slc_out_sys *sys, int fd) {
    errno = ((const bad_disk *)sys)->sync_errno;
    return errno ? -1 : fsync(fd);
}

static int64_t bad_free_bytes(const slc_out_sys *sys, int fd) {
    const bad_disk *b = (const bad_disk *)sys;

    return b->free_bytes == -2 ? slc_out_sys_linux.free_bytes(sys, fd) : b->free_bytes;
}

static bad_disk a_disk(void) {
    return (bad_disk){
        .sys = {bad_pwrite, bad_allocate, bad_sync, bad_free_bytes},
        .free_bytes = -2,
    };
}

static void expect_nothing_left(void) {
    assert_int_equal(access(out, F_OK), -1);
    assert_int_equal(access(partial, F_OK), -1);
}

static void a_full_disk_is_reported_before_work(void **state) {
    bad_disk b = a_disk();

    put_model((tiny_options){.bits = 4});
    b.free_bytes = 4096;
    must_not_pack(&plain, &b.sys, SLC_E_IO, "has 4096 free");
    assert_int_equal(b.n_writes, 0);
    expect_nothing_left();
    b = a_disk();
    b.allocate_errno = EDQUOT;
    must_not_pack(&plain, &b.sys, SLC_E_IO, "cannot reserve");
    assert_int_equal(b.n_writes, 1); /* the mark of an unfinished file */
    expect_nothing_left();
}

static void file_systems_without_these_calls_will_do(void **state) {
    bad_disk b = a_disk();
    slc_err err;

    put_model((tiny_options){.bits = 4});
    b.free_bytes = -1;
    b.allocate_errno = EOPNOTSUPP;
    b.halves = true;
    if (try_pack(&plain, &b.sys, &err)) fail_msg("%s", err.msg);
    expect_same_model();
}

static void a_failing_write_leaves_nothing(void **state) {
    slc_err err = {0};
    int n = 1;

    put_model((tiny_options){.bits = 4});
    for (;; n++) {
        bad_disk b = a_disk();

        b.fail_write = n;
        b.fail_errno = n % 3 == 0 ? 0 : n % 3 == 1 ? ENOSPC : EIO;
        if (!try_pack(&plain, &b.sys, &err)) break;
        assert_int_equal(err.code, SLC_E_IO);
        assert_non_null(strstr(err.msg, "cannot write"));
        expect_nothing_left();
    }
    assert_true(n > 3);
    expect_same_model();
}

static void a_failing_sync_leaves_nothing(void **state) {
    bad_disk b = a_disk();

    put_model((tiny_options){.bits = 4});
    b.sync_errno = EIO;
    must_not_pack(&plain, &b.sys, SLC_E_IO, "cannot be written to disk");
    expect_nothing_left();
}

/* Repacking a model that changed, over the pack that is there, on a disk that is or becomes full:
 * the old pack stays, whole. */
static void b22_a_failed_repack_leaves_the_old_pack(void **state) {
    slc_pack_options force = {.force = true};
    bad_disk b = a_disk();
    size_t n_old, n_now;
    char *old, *now;

    put_model((tiny_options){.bits = 4});
    must_pack();
    old = temp_read(out, &n_old);
    put_model((tiny_options){.bits = 8});
    b.free_bytes = 4096;
    must_not_pack(&force, &b.sys, SLC_E_IO, "has 4096 free");
    assert_int_equal(b.n_writes, 0);
    for (int nth = 1; nth <= 3; nth++) {
        b = a_disk();
        b.fail_write = nth;
        b.fail_errno = ENOSPC;
        must_not_pack(&force, &b.sys, SLC_E_IO, "No space left on device");
        assert_int_equal(access(partial, F_OK), -1);
        now = temp_read(out, &n_now);
        assert_int_equal(n_now, n_old);
        assert_memory_equal(now, old, n_old);
        free(now);
    }
    free(old);
}

/* ---- killed, cancelled, overtaken ---- */

static int kill_at;

static void kill_self(int n) {
    if (n == kill_at) raise(SIGKILL);
}

static void after_a_kill_the_next_run_starts_over(void **state) {
    put_model((tiny_options){.bits = 4});
    for (kill_at = 1; kill_at <= 4; kill_at++) {
        slc_checkpoint *c;
        slc_err err = {0};
        int status;
        pid_t pid = fork();

        assert_int_not_equal(pid, -1);
        if (pid == 0) {
            bad_disk b = a_disk();

            b.on_write = kill_self;
            _exit(slc_pack_write_with(model, out, &plain, &b.sys, &err) ? 1 : 0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(access(out, F_OK), -1);
        assert_int_equal(access(partial, F_OK), 0);
        if (kill_at > 1) {
            assert_int_equal(slc_checkpoint_open(partial, NULL, &c, &err), SLC_E_FORMAT);
            assert_non_null(strstr(err.msg, "unfinished"));
        }
        must_pack();
        expect_same_model();
        assert_int_equal(unlink(out), 0);
    }
}

static bool stop_at_once(void *user, const char *what, uint64_t done, uint64_t total) {
    ++*(int *)user;
    assert_true(done && done <= total);
    return false;
}

static void cancelling_leaves_nothing(void **state) {
    int calls = 0;
    slc_pack_options opt = {.on_progress = stop_at_once, .user = &calls};
    slc_err err = {0};

    assert_int_equal(slc_pack_write(SLC_SOURCE_DIR "/models/demo-moe", out, &opt, &err),
                     SLC_E_CANCELLED);
    assert_int_equal(calls, 1);
    expect_nothing_left();
}

static const char *victim; /* file that changes when nothing is copied yet */
static enum { REWRITE, REPLACE, SHORTEN, APPEAR } how;

static void change_source(int n) {
    char *path = temp_path(model, victim), *bytes;
    size_t len;

    if (n == 1 && how == APPEAR) free(temp_write(model, victim, "{}", 2));
    if (n == 1 && how == SHORTEN) assert_int_equal(truncate(path, 100), 0);
    if (n == 1 && how != APPEAR && how != SHORTEN) {
        bytes = temp_read(path, &len);
        if (how == REPLACE) unlink(path);
        free(temp_write(model, victim, bytes, len)); /* the same bytes: that is not the point */
        free(bytes);
    }
    free(path);
}

static void a_source_that_changes_is_noticed(void **state) {
    static const struct {
        const char *file;
        int how;
    } cases[] = {
        {"model.safetensors", REWRITE},     {"model.safetensors", REPLACE},
        {"model.safetensors", SHORTEN},     {"config.json", REWRITE},
        {"generation_config.json", APPEAR}, {"tokenizer.json", REPLACE},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        bad_disk b = a_disk();

        put_model((tiny_options){.bits = 4});
        victim = cases[i].file;
        how = cases[i].how;
        b.on_write = change_source;
        must_not_pack(&plain, &b.sys, SLC_E_IO, victim);
        expect_nothing_left();
    }
}

static void appear(int n) {
    if (n == 2) free(temp_write(dir, "out.pack", "somebody's", 10));
}

static void a_target_that_appears_meanwhile_is_not_replaced(void **state) {
    bad_disk b = a_disk();
    char *text;

    put_model((tiny_options){.bits = 4});
    b.on_write = appear;
    must_not_pack(&plain, &b.sys, SLC_E_INVALID, "meanwhile");
    text = temp_read(out, NULL);
    assert_string_equal(text, "somebody's");
    free(text);
    assert_int_equal(access(partial, F_OK), -1);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, new_dir, remove_dir)
    const struct CMUnitTest tests[] = {
        CASE(every_layout_comes_out_as_it_went_in),
        CASE(the_same_model_makes_the_same_file),
        CASE(origins_are_told),
        CASE(a_pack_is_no_source),
        CASE(an_existing_target_needs_force_and_must_be_a_pack),
        CASE(a_stale_partial_is_replaced_a_foreign_one_is_not),
        CASE(a_partial_that_is_being_written_is_left_alone),
        CASE(a_full_disk_is_reported_before_work),
        CASE(file_systems_without_these_calls_will_do),
        CASE(b22_a_failed_repack_leaves_the_old_pack),
        CASE(a_failing_write_leaves_nothing),
        CASE(a_failing_sync_leaves_nothing),
        CASE(after_a_kill_the_next_run_starts_over),
        CASE(cancelling_leaves_nothing),
        CASE(a_source_that_changes_is_noticed),
        CASE(a_target_that_appears_meanwhile_is_not_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
