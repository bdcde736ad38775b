/* kcheck [--cpu LEVEL] [--seed N] [--cases PERCENT] [--bench]: see kcheck.h.
 *
 * Walks the CPU levels upward. An entry that a level shares with the one below is not run again. A
 * level this machine lacks is reported as skipped. A signal inside a kernel is caught and reported
 * with the kernel's name. SLUICE_CPU caps the level as --cpu does. */
#include "kernels/kcheck.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* ---- random ---- */

uint32_t slc_kc_random(kcase *c) { // splitmix64
    uint64_t z = c->rng += 0x9e3779b97f4a7c15;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (uint32_t)(z >> 32);
}

uint32_t slc_kc_below(kcase *c, uint32_t n) {
    return (uint32_t)((uint64_t)slc_kc_random(c) * n >> 32);
}

static float random_float(kcase *c, flavour f) {
    uint32_t sign = slc_kc_random(c) & 0x80000000, fraction = slc_kc_random(c) & 0x7fffff;
    uint32_t choice = slc_kc_below(c, 16);
    float plain = (float)(int32_t)slc_kc_random(c) * 0x1p-31f;

    switch (f) {
    case WIDE: return slc_f32_from_bits(sign | (127 - 40 + slc_kc_below(c, 81)) << 23 | fraction);
    case SPARSE: return choice ? slc_f32_from_bits(sign) : plain;
    case TINY: return slc_f32_from_bits(sign | slc_kc_below(c, 30) << 23 | fraction);
    case HUGE_: return slc_f32_from_bits(sign | (254 - slc_kc_below(c, 4)) << 23 | fraction);
    case SPECIAL:
        if (choice == 0) return slc_f32_from_bits(sign | 0x7f800000);
        if (choice == 1) return slc_f32_from_bits(sign | 0x7f800001 | fraction);
        return plain;
    default: return plain;
    }
}

void slc_kc_fill(kcase *c, float *x, size_t n, flavour f) {
    for (size_t i = 0; i < n; i++) x[i] = random_float(c, f);
}

/* ---- memory ---- */

enum { N_SLOTS = 16, SLOT_BYTES = 2 << 20, GUARD = 128 };

static uint8_t *slots[N_SLOTS];

static void map_slots(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = SLOT_BYTES + 2 * page;

    for (int i = 0; i < N_SLOTS; i++) {
        uint8_t *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (p == MAP_FAILED || mprotect(p + page, SLOT_BYTES, PROT_READ | PROT_WRITE)) {
            perror("kcheck: mmap");
            exit(2);
        }
        slots[i] = p + page;
    }
}

static uint8_t *next_slot(kcase *c, size_t bytes) {
    if (c->n_slots == N_SLOTS || bytes > SLOT_BYTES - 4096) {
        fprintf(stderr, "kcheck: a case of %s needs more memory than there is\n", c->what);
        exit(2);
    }
    return slots[c->n_slots++];
}

void *slc_kc_input(kcase *c, size_t n, size_t size, bool any_align) {
    uint8_t *slot = next_slot(c, n * size);
    uint32_t step = any_align ? 1 : (uint32_t)size;

    switch (slc_kc_below(c, 4)) {
    case 0: return slot + slc_kc_below(c, 64 / step) * step;
    case 1: return slot;
    default: return slot + SLOT_BYTES - n * size;
    }
}

kc_out slc_kc_output(kcase *c, size_t n, size_t size) {
    kc_out out = {.bytes = n * size};
    uint32_t at = GUARD + slc_kc_below(c, (uint32_t)(64 / size)) * (uint32_t)size;

    out.ref = next_slot(c, out.bytes + 4 * GUARD) + at;
    out.k = next_slot(c, out.bytes + 4 * GUARD) + at;
    for (size_t i = 0; i < out.bytes + 2 * GUARD; i++) {
        out.ref[i - GUARD] = (uint8_t)slc_kc_random(c);
    }
    memcpy(out.k - GUARD, out.ref - GUARD, out.bytes + 2 * GUARD);
    return out;
}

/* ---- verdicts ---- */

static bool differs(const uint8_t *a, const uint8_t *b, size_t i, bool is_float) {
    uint32_t x, y;

    if (!is_float) return a[i] != b[i];
    memcpy(&x, a + i, 4);
    memcpy(&y, b + i, 4);
    return x != y && ((x & 0x7fffffff) <= 0x7f800000 || (y & 0x7fffffff) <= 0x7f800000);
}

bool slc_kc_same(kcase *c, const char *name, kc_out out, bool is_float) {
    size_t step = is_float ? 4 : 1;

    if (memcmp(out.ref - GUARD, out.k - GUARD, GUARD) ||
        memcmp(out.ref + out.bytes, out.k + out.bytes, GUARD)) {
        printf("  %s: wrote outside its %zu bytes\n    %s\n", name, out.bytes, c->what);
        return false;
    }
    for (size_t i = 0; i < out.bytes; i += step) {
        if (!differs(out.ref, out.k, i, is_float)) continue;

        float want = 0, got = 0;

        if (is_float) memcpy(&want, out.ref + i, 4), memcpy(&got, out.k + i, 4);
        printf("  %s[%zu]: expected %a, found %a (bytes %02x, %02x)\n    %s\n", name, i / step,
               (double)want, (double)got, out.ref[i], out.k[i], c->what);
        return false;
    }
    return true;
}

bool slc_kc_near(kcase *c, const char *name, size_t i, double got, double want, double bound) {
    if (fabs(got - want) <= bound || (isnan(got) && isnan(want)) || got == want) return true;
    printf("  %s[%zu]: double precision gives %.9g, found %.9g, allowed difference %g\n    %s\n",
           name, i, want, got, bound, c->what);
    return false;
}

/* ---- the walk ---- */

static sigjmp_buf escape;

static void on_signal(int sig) {
    siglongjmp(escape, sig);
}

static void catch_signals(void) {
    static const int caught[] = {SIGILL, SIGSEGV, SIGBUS, SIGFPE};
    struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_NODEFER};

    for (size_t i = 0; i < sizeof(caught) / sizeof(*caught); i++) sigaction(caught[i], &sa, NULL);
}

/* Runs all cases of one check; false after the first failure. */
static bool run_check(const kcheck *check, const slc_kernels *ref, const slc_kernels *k,
                      uint64_t seed, uint32_t percent) {
    static kcase c; // static: its value must survive the jump
    static volatile uint32_t i;
    uint32_t n = check->n_cases * percent / 100 + 1;

    for (i = 0; i < n; i++) {
        int sig = sigsetjmp(escape, 1);

        if (sig) {
            printf("FAIL %s %s: %s in case %u, seed %llu\n    %s\n", k->level, check->name,
                   strsignal(sig), i, (unsigned long long)seed, c.what);
            return false;
        }
        c = (kcase){.ref = ref, .k = k, .rng = seed + i * 0x1000193u};
        if (!check->run(&c, check->arg)) {
            printf("FAIL %s %s: case %u, seed %llu\n", k->level, check->name, i,
                   (unsigned long long)seed);
            return false;
        }
    }
    printf("ok   %s %s, %u cases\n", k->level, check->name, n);
    return true;
}

static int run_list(const kcheck *list, size_t n, const slc_kernels *below, const slc_kernels *ref,
                    const slc_kernels *k, uint64_t seed, uint32_t percent) {
    int failures = 0;

    for (size_t i = 0; i < n; i++) {
        const char *mine = (const char *)k + list[i].entry;

        if (below && !memcmp(mine, (const char *)below + list[i].entry, sizeof(void *))) continue;
        failures += !run_check(&list[i], ref, k, seed, percent);
    }
    return failures;
}

static int walk(slc_cpu_level cap, uint64_t seed, uint32_t percent) {
    slc_kernels ref, below, k;
    int failures = 0;

    slc_kernels_init(&ref, SLC_CPU_SCALAR);
    for (int level = SLC_CPU_SCALAR; level < SLC_CPU_N_LEVELS; level++) {
        const slc_kernels *under = level == SLC_CPU_SCALAR ? NULL : &below;

        if (level > (int)slc_cpu_level_best() || level > (int)cap) {
            printf("skip level %d: %s\n", level,
                   level > (int)slc_cpu_level_best() ? "this machine lacks it" : "above the cap");
            continue;
        }
        slc_kernels_init(&k, (slc_cpu_level)level);
        failures +=
            run_list(slc_kcheck_matmul, slc_kcheck_n_matmul, under, &ref, &k, seed, percent);
        failures +=
            run_list(slc_kcheck_vector, slc_kcheck_n_vector, under, &ref, &k, seed, percent);
        below = k;
    }
    return failures;
}

static slc_cpu_level parse_level(const char *name) {
    slc_cpu_level level = slc_cpu_level_parse(name);

    if (level == SLC_CPU_N_LEVELS) {
        fprintf(stderr, "kcheck: unknown CPU level \"%s\"\n", name);
        exit(2);
    }
    return level == SLC_CPU_AUTO ? slc_cpu_level_best() : level;
}

static int bench(slc_cpu_level cap) {
    slc_kernels ref, k;

    slc_kernels_init(&ref, SLC_CPU_SCALAR);
    slc_kernels_init(&k, cap < slc_cpu_level_best() ? cap : slc_cpu_level_best());
    return slc_kcheck_bench(&ref, &k);
}

int main(int argc, char **argv) {
    const char *env = getenv("SLUICE_CPU");
    slc_cpu_level cap = env && *env ? parse_level(env) : slc_cpu_level_best();
    uint64_t seed = (uint64_t)time(NULL);
    uint32_t percent = 100;
    bool want_bench = false;

    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;

        if (!strcmp(argv[i], "--bench")) {
            want_bench = true;
            continue;
        }
        if (value && !strcmp(argv[i], "--cpu")) {
            slc_cpu_level level = parse_level(value);

            if (level < cap) cap = level;
        } else if (value && !strcmp(argv[i], "--seed")) {
            seed = strtoull(value, NULL, 0);
        } else if (value && !strcmp(argv[i], "--cases")) {
            percent = (uint32_t)strtoul(value, NULL, 0);
        } else {
            fprintf(stderr, "usage: kcheck [--cpu LEVEL] [--seed N] [--cases PERCENT] [--bench]\n");
            return 2;
        }
        i++;
    }
    if (want_bench) return bench(cap);
    printf("seed %llu\n", (unsigned long long)seed);
    setvbuf(stdout, NULL, _IOLBF, 0);
    map_slots();
    catch_signals();
    return walk(cap, seed, percent) ? 1 : 0;
}
