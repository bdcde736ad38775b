/* b13: a model of 300 files under small limits of open files. Each case is a process of its own,
 * because a hard limit cannot be taken back. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "engine/model_internal.h"
#include "support/run.h"
#include "support/temp.h"

#define MODEL "tests/golden/moe-q4g64"

enum { N_FILES = 300, N_TOKENS = 12, N_SOCKETS = 40 };

static char *dir;
static int32_t expected[N_TOKENS];

/* ---- a file per tensor, and more that hold what is not needed ---- */

static void write_shard(uint32_t file, const char *tensor, json_t *entry, const char *data,
                        json_t *map) {
    char name[64], *path, *text;
    json_t *header = json_object();
    uint64_t n;
    FILE *f;

    snprintf(name, sizeof(name), "model-%05u-of-%05u.safetensors", file + 1, N_FILES);
    json_object_set_new(map, tensor, json_string(name));
    json_object_set_new(header, tensor, entry);
    text = json_dumps(header, JSON_COMPACT);
    n = strlen(text);
    path = temp_path(dir, name);
    assert_non_null(f = fopen(path, "wb"));
    fwrite(&n, sizeof(n), 1, f);
    fwrite(text, 1, n, f);
    n = (uint64_t)json_integer_value(json_array_get(json_object_get(entry, "data_offsets"), 1));
    fwrite(data, 1, n, f);
    assert_int_equal(fclose(f), 0);
    json_decref(header);
    free(text);
    free(path);
}

static json_t *entry_of(const char *dtype, json_t *shape, uint64_t bytes) {
    return json_pack("{ss, sO, s[iI]}", "dtype", dtype, "shape", shape, "data_offsets", 0,
                     (json_int_t)bytes);
}

static void write_shards(const char *bytes, json_t *map) {
    uint64_t n_header = 0;
    uint32_t n = 0;
    json_t *header, *x, *one = json_pack("[i]", 1);
    const char *name;

    memcpy(&n_header, bytes, sizeof(n_header));
    assert_non_null(header = json_loadb(bytes + 8, n_header, 0, NULL));
    json_object_del(header, "__metadata__");
    json_object_foreach(header, name, x) {
        json_t *span = json_object_get(x, "data_offsets");
        json_int_t from = json_integer_value(json_array_get(span, 0));
        json_int_t to = json_integer_value(json_array_get(span, 1));

        write_shard(n++, name,
                    entry_of(json_string_value(json_object_get(x, "dtype")),
                             json_object_get(x, "shape"), (uint64_t)(to - from)),
                    bytes + 8 + n_header + from, map);
    }
    for (; n < N_FILES; n++) {
        char side[64];

        snprintf(side, sizeof(side), "vision_tower.filler.%u", n);
        write_shard(n, side, entry_of("BF16", one, 2), "\0", map);
    }
    json_decref(one);
    json_decref(header);
}

static char *read_source(const char *name, size_t *n) {
    char relative[128], *path, *bytes;

    snprintf(relative, sizeof(relative), MODEL "/%s", name);
    path = source_path(relative);
    bytes = temp_read(path, n);
    free(path);
    return bytes;
}

static void write_model(void) {
    json_t *map = json_object(), *index;
    size_t n;
    char *bytes = read_source("config.json", &n), *text;

    free(temp_write(dir, "config.json", bytes, n));
    free(bytes);
    bytes = read_source("model.safetensors", &n);
    write_shards(bytes, map);
    free(bytes);
    index = json_pack("{s{}, so}", "metadata", "weight_map", map);
    text = json_dumps(index, JSON_COMPACT);
    free(temp_write(dir, "model.safetensors.index.json", text, strlen(text)));
    free(text);
    json_decref(index);
}

/* ---- in a process with few descriptors ---- */

static void expect(bool ok, const char *what, const char *found) {
    if (ok) return;
    fprintf(stderr, "expected %s, found: %s\n", what, found);
    exit(1);
}

static void generate(slc_model *m, int32_t *ids) {
    const int32_t token = 5;

    run_greedy(m, &token, 1, ids, N_TOKENS);
}

static slc_status open_shards(slc_model **m, slc_err *err) {
    slc_model_options o = slc_model_options_default();

    o.ctx_size = 64;
    o.memory_bytes = UINT64_C(256) << 20;
    o.expert_cache_bytes = 65536; /* reads go on */
    return slc_model_open(dir, &o, m, err);
}

static uint32_t count_direct(const slc_model *m) {
    uint32_t n = 0;

    for (uint32_t i = 0; i < m->ckpt->n_files; i++) n += m->ckpt->files[i].direct_fd >= 0;
    return n;
}

/* The same text, and sockets can be had beside. At most `most_direct` files are read directly. */
static void runs(uint32_t most_direct) {
    int32_t ids[N_TOKENS];
    slc_err err = {0};
    slc_model *m;

    expect(open_shards(&m, &err) == SLC_OK, "the model to open", err.msg);
    expect(count_direct(m) <= most_direct, "fewer direct descriptors", "more");
    for (int i = 0; i < N_SOCKETS; i++)
        expect(socket(AF_UNIX, SOCK_STREAM, 0) >= 0, "a socket", strerror(errno));
    generate(m, ids);
    expect(!memcmp(ids, expected, sizeof(ids)), "the same tokens", "others");
    slc_model_close(m);
}

static void is_refused(uint32_t allowed) {
    char text[64];
    slc_err err = {0};
    slc_model *m;

    snprintf(text, sizeof(text), " allows %u beside", allowed);
    expect(open_shards(&m, &err) == SLC_E_IO, "a refusal", err.msg);
    expect(strstr(err.msg, "its 300 files must be open at once,"), "the number needed", err.msg);
    expect(strstr(err.msg, text), text, err.msg);
    expect(strstr(err.msg, "raise it to 428 (ulimit -n)"), "the limit needed", err.msg);
    expect(strstr(err.msg, "sluice pack"), "the other remedy", err.msg);
    expect(err.sys_errno == EMFILE, "EMFILE", strerror(err.sys_errno));
}

static void under_limit(rlim_t soft, rlim_t hard, void (*check)(uint32_t), uint32_t arg) {
    struct rlimit lim, new;
    int status;
    pid_t pid;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &lim), 0);
    new = (struct rlimit){soft, hard ? hard : lim.rlim_max};
    if (new.rlim_max > lim.rlim_max) skip();
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (setrlimit(RLIMIT_NOFILE, &new)) _exit(2);
        check(arg);
        exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status)) fail_msg("the child ended with %d", status);
}

static void b13_the_soft_limit_is_raised(void **state) {
    (void)state;
    under_limit(64, 1000, runs, N_FILES);
}

/* One descriptor a file is all there is: such files are read through the page cache. */
static void b13_direct_reads_give_way(void **state) {
    (void)state;
    under_limit(428, 428, runs, 0);
    under_limit(500, 500, runs, 72);
}

static void b13_too_low_a_limit_is_refused_with_what_helps(void **state) {
    (void)state;
    under_limit(64, 64, is_refused, 32);
    under_limit(427, 427, is_refused, 299);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(b13_the_soft_limit_is_raised),
        cmocka_unit_test(b13_direct_reads_give_way),
        cmocka_unit_test(b13_too_low_a_limit_is_refused_with_what_helps),
    };
    slc_model_options o = slc_model_options_default();
    slc_model *whole;
    int rc;

    o.ctx_size = 64;
    o.memory_bytes = UINT64_C(256) << 20;
    whole = run_open(MODEL, &o);
    generate(whole, expected);
    slc_model_close(whole);
    dir = temp_dir();
    write_model();
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    temp_dir_remove(dir);
    return rc;
}
