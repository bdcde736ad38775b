/* Sizing. Nothing here allocates; sizes of arenas come from running their layout in measuring mode.
 */
#include "engine/plan.h"

#include "base/fail.h"
#include "base/meminfo.h"
#include "engine/model_internal.h"

#define MIB         (1ull << 20)
#define DEFAULT_CTX 8192u
#define MAX_CHUNK   512u
#define MIN_CHUNK   16u
#define MAX_SEQS    1024u /* keeps sizes inside 64 bits */

/* The same program does not measure itself alike to the page in every run: the smallest budget that
 * is told has this much to spare over what is refused. */
#define JITTER_BYTES (128ull << 10)
/* Heap of a generation (ids, text, JSON), page-table rounding, inexact kernel counters. */
#define HEADROOM_BYTES (1 * MIB)
/* Touched part of a worker's or reader's stack, at most. */
#define STACK_BYTES (64ull << 10)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZER 1
#endif
#endif
#ifndef SANITIZER
#define SANITIZER 0
#endif

/* Resident now, and mapped code and libraries that may still become so. */
static uint64_t in_use_bytes(void) {
    slc_mem_usage u = slc_mem_usage_get();
    uint64_t untouched =
        u.file_mapped_bytes > u.file_rss_bytes ? u.file_mapped_bytes - u.file_rss_bytes : 0;

    return u.rss_bytes + untouched;
}

/* For what grows on its own: stacks of threads that have hardly run, small heap blocks. */
static uint64_t reserve_bytes(const slc_plan *p) {
    return HEADROOM_BYTES + p->threads * STACK_BYTES;
}

/* Shadow memory is not the program's: sanitizer builds do not check the promise. */
static uint64_t process_bytes(const slc_plan *p) {
    return SANITIZER ? 16 * MIB : in_use_bytes() + reserve_bytes(p);
}

/* The same with everything loaded: in use now, and the reserve in full where the fewest experts
 * still fit beside it. Where not, what has grown since the plan was made counts as part of the
 * reserve, which is there for it: a budget that the plan accepted is not refused afterwards. */
static uint64_t loaded_bytes(const slc_plan *p) {
    uint64_t planned = p->process_bytes + p->resident_bytes + p->state_bytes + p->scratch_bytes;
    uint64_t now = in_use_bytes(), full = now + reserve_bytes(p);

    if (SANITIZER) return planned;
    if (full + p->min_slots * p->slot_bytes <= p->budget_bytes || now > planned) return full;
    return planned;
}

/* What a process may take when nobody says: leaves a tenth, within 256 MiB and 2 GiB, to the rest
 * of the machine (a quarter where there is less than 1 GiB). */
static uint64_t default_budget(void) {
    uint64_t room = slc_mem_room_bytes(""), reserve = room / 10;

    if (room == UINT64_MAX) return 2048 * MIB;
    if (room < 1024 * MIB)
        reserve = room / 4;
    else if (reserve < 256 * MIB)
        reserve = 256 * MIB;
    else if (reserve > 2048 * MIB)
        reserve = 2048 * MIB;
    return slc_mem_usage_get().rss_bytes + room - reserve;
}

static uint64_t scratch_bytes(slc_model *m, uint32_t chunk) {
    slc_arena measure = {0};

    slc_step_take(m, &measure, chunk);
    return measure.used;
}

/* What the plan takes with a chunk and the fewest experts. What has been used at the peak so far
 * (parsing) counts as well, though it is free again. */
static uint64_t least_bytes(const slc_plan *p, uint64_t scratch) {
    uint64_t least = p->process_bytes + p->resident_bytes + p->state_bytes + scratch +
                     p->original_bytes + p->min_slots * p->slot_bytes;
    uint64_t peak = SANITIZER ? 0 : slc_mem_usage_get().peak_rss_bytes + HEADROOM_BYTES;

    return least > peak ? least : peak;
}

/* The largest chunk whose scratch stays below an eighth of the budget, and the smallest budget that
 * any chunk allows. Every chunk gives the same results; a larger one reads each expert once for
 * more tokens. */
static void choose_chunk(slc_model *m, uint32_t wanted) {
    slc_plan *p = &m->plan;
    uint32_t most = wanted ? wanted : MAX_CHUNK, least = wanted ? wanted : MIN_CHUNK;

    for (p->chunk = most;; p->chunk /= 2) {
        if (p->chunk > p->ctx) p->chunk = p->ctx;
        p->scratch_bytes = scratch_bytes(m, p->chunk);
        if (p->chunk <= least) break;
        if (p->scratch_bytes <= p->budget_bytes / 8 &&
            least_bytes(p, p->scratch_bytes) <= p->budget_bytes)
            break;
    }
    p->smallest_bytes =
        least_bytes(p, scratch_bytes(m, least < p->chunk ? least : p->chunk)) + JITTER_BYTES;
}

/* The fewest slots to plan for: one, or the whole of the expert cache asked for. */
static slc_status choose_min_slots(slc_plan *p, uint64_t cache_bytes, slc_err *err) {
    uint64_t wanted = cache_bytes ? cache_bytes / p->slot_bytes : 1;

    if (wanted == 0)
        return slc_fail(err, SLC_E_INVALID,
                        "expert cache of %llu bytes is smaller than one expert (%llu bytes)",
                        (unsigned long long)cache_bytes, (unsigned long long)p->slot_bytes);
    p->min_slots = wanted < p->max_slots ? (uint32_t)wanted : p->max_slots;
    return SLC_OK;
}

/* Slots when `left` bytes are there for them: at least min_slots, as was checked. */
static uint32_t count_slots(const slc_plan *p, const slc_model_options *opt, uint64_t left) {
    uint64_t n = p->slot_bytes ? left / p->slot_bytes : 0;

    if (opt->expert_cache_bytes) return p->min_slots;
    return n < p->max_slots ? (uint32_t)n : p->max_slots;
}

slc_status slc_plan_make(slc_model *m, const slc_model_options *opt, bool refuse, slc_err *err) {
    const slc_config *c = slc_model_config(m);
    slc_plan *p = &m->plan;
    slc_arena measure = {0};
    uint64_t spare;
    slc_status rc;

    p->n_seqs = opt->n_seqs ? opt->n_seqs : 1;
    if (p->n_seqs > MAX_SEQS)
        return slc_fail(err, SLC_E_INVALID, "%u sequences, at most %u", p->n_seqs, MAX_SEQS);
    p->ctx = opt->ctx_size;
    if (!p->ctx) p->ctx = c->max_positions < DEFAULT_CTX ? c->max_positions : DEFAULT_CTX;
    if (p->ctx > c->max_positions)
        return slc_fail(err, SLC_E_INVALID, "context size %u is more than the model's %u", p->ctx,
                        c->max_positions);

    if ((rc = slc_load_resident(m, &measure, err))) return rc;
    p->resident_bytes = measure.used;
    slc_state_layout_init(&m->state_layout, &m->net, p->ctx, opt->exact);
    p->state_bytes = p->n_seqs * slc_align_up(m->state_layout.total_bytes, SLC_SIMD_ALIGN);
    if (m->mode != SLC_MODE_FULL) {
        p->original_bytes = slc_original_bytes(m->ckpt, m->mode);
    } else if (slc_config_is_moe(c)) {
        p->max_slots = c->n_layers * c->n_experts;
        p->slot_bytes = slc_store_slot_bytes(m->ckpt) +
                        (slc_store_overhead_bytes(m->ckpt, p->max_slots) / p->max_slots + 1);
        if ((rc = choose_min_slots(p, opt->expert_cache_bytes, err))) return rc;
    }
    p->process_bytes = process_bytes(p);
    p->budget_bytes = opt->memory_bytes ? opt->memory_bytes : default_budget();
    choose_chunk(m, opt->prefill_chunk);

    p->n_slots = 0;
    if (p->budget_bytes + JITTER_BYTES < p->smallest_bytes) {
        if (!refuse) return SLC_OK;
        return slc_fail(err, SLC_E_NOMEM,
                        "memory budget of %.1f MiB is too small: this model with a context of %u%s "
                        "needs at least %.1f MiB (--memory %lluM)",
                        (double)p->budget_bytes / MIB, p->ctx,
                        opt->expert_cache_bytes ? " and this expert cache" : "",
                        (double)p->smallest_bytes / MIB,
                        (unsigned long long)((p->smallest_bytes + MIB - 1) / MIB));
    }
    spare = least_bytes(p, p->scratch_bytes);
    spare = p->budget_bytes > spare ? p->budget_bytes - spare : 0;
    p->n_slots = count_slots(p, opt, spare + p->min_slots * p->slot_bytes);
    return SLC_OK;
}

slc_status slc_plan_slots(const slc_model *m, const slc_model_options *opt, uint32_t *n_slots,
                          slc_err *err) {
    const slc_plan *p = &m->plan;
    uint64_t used = loaded_bytes(p);

    if (p->budget_bytes < used + p->min_slots * p->slot_bytes)
        return slc_fail(err, SLC_E_NOMEM,
                        "memory budget of %.1f MiB leaves no room for %u experts (%.1f MiB): %.1f "
                        "MiB are in use after loading",
                        (double)p->budget_bytes / MIB, p->min_slots,
                        (double)(p->min_slots * p->slot_bytes) / MIB, (double)used / MIB);
    *n_slots = count_slots(p, opt, p->budget_bytes - used);
    return SLC_OK;
}
