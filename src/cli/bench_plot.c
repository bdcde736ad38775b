/* Tokens a second against the budget, as SVG: a line through the medians of every series, a bar
 * from its slowest to its fastest run, and its roofline dashed. Written by hand: a plot of this
 * kind is text, axes and polylines. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fail.h"
#include "cli/bench_runs.h"

enum { WIDTH = 860, HEIGHT = 520, LEFT = 70, RIGHT = 230, TOP = 70, BOTTOM = 60 };

/* Okabe and Ito's colours, which most people can tell apart. */
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                      "#e69f00", "#56b4e9", "#000000", "#999999"};

enum { N_COLOURS = sizeof(colours) / sizeof(*colours) };

typedef struct plot {
    FILE *f;
    const slc_bench_results *r;
    double x_min, x_max, y_max; /* x: log2 of bytes */
} plot;

static void put_escaped(FILE *f, const char *text) {
    for (; *text; text++) {
        if (*text == '<')
            fputs("&lt;", f);
        else if (*text == '&')
            fputs("&amp;", f);
        else if ((unsigned char)*text >= ' ')
            fputc(*text, f);
    }
}

static void put_label(const plot *p, double x, double y, const char *anchor, int size,
                      const char *text) {
    fprintf(p->f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" font-size=\"%d\">", x, y, anchor,
            size);
    put_escaped(p->f, text);
    fputs("</text>\n", p->f);
}

static void put_line(const plot *p, double x1, double y1, double x2, double y2, const char *colour,
                     const char *more) {
    fprintf(p->f, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"%s/>\n", x1,
            y1, x2, y2, colour, more);
}

/* ---- scales ---- */

static double budget_of(const slc_bench_config *c) {
    uint64_t bytes = c->cache_bytes ? c->cache_bytes : c->memory_bytes;

    return log2((double)(bytes ? bytes : c->plan_bytes));
}

static double x_of(const plot *p, const slc_bench_config *c) {
    double span = p->x_max - p->x_min;
    double at = span > 0 ? (budget_of(c) - p->x_min) / span : 0.5;

    return LEFT + (0.03 + 0.94 * at) * (WIDTH - LEFT - RIGHT);
}

static double y_of(const plot *p, double rate) {
    return HEIGHT - BOTTOM - rate / p->y_max * (HEIGHT - TOP - BOTTOM);
}

/* The step of 1, 2 or 5 times a power of ten that gives at most eight. */
static double step_of(double most) {
    double power = pow(10, floor(log10(most / 8)));

    if (power * 8 >= most) return power;
    if (power * 16 >= most) return 2 * power;
    return power * 40 >= most ? 5 * power : 10 * power;
}

static void find_scales(plot *p) {
    double most = 0;

    for (uint32_t i = 0; i < p->r->n_configs; i++) {
        const slc_bench_config *c = &p->r->configs[i];
        double x = budget_of(c), fastest = slc_bench_spread(c, "decode_tokens_per_s").max;

        p->x_min = i == 0 || x < p->x_min ? x : p->x_min;
        p->x_max = i == 0 || x > p->x_max ? x : p->x_max;
        most = fmax(most, fmax(fastest, c->bound.tokens_per_s));
    }
    if (!(most > 0)) most = 1;
    p->y_max = ceil(most * 1.05 / step_of(most)) * step_of(most);
}

/* ---- parts ---- */

static void put_axes(const plot *p) {
    double step = step_of(p->y_max), bottom = HEIGHT - BOTTOM, last = -1e9;
    char text[32];

    for (int i = 0; i * step <= p->y_max * 1.001; i++) {
        double y = i * step;

        put_line(p, LEFT, y_of(p, y), WIDTH - RIGHT, y_of(p, y), "#dddddd", "");
        snprintf(text, sizeof(text), "%g", y);
        put_label(p, LEFT - 8, y_of(p, y) + 4, "end", 12, text);
    }
    put_line(p, LEFT, bottom, WIDTH - RIGHT, bottom, "#000000", "");
    for (uint32_t i = 0; i < p->r->n_configs; i++) {
        const slc_bench_config *c = &p->r->configs[i];
        double x = x_of(p, c);

        if (fabs(x - last) < 1) continue; /* the same budget again */
        last = x;
        put_line(p, x, bottom, x, bottom + 5, "#000000", "");
        put_label(p, x, bottom + 20, "middle", 12, *c->budget ? c->budget : "default");
    }
    put_label(p, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 16, "middle", 13,
              p->r->configs[0].cache_bytes ? "expert cache" : "memory limit");
    fprintf(p->f,
            "<text transform=\"translate(18 %d) rotate(-90)\" text-anchor=\"middle\" "
            "font-size=\"13\">tokens a second</text>\n",
            (TOP + HEIGHT - BOTTOM) / 2);
}

static void put_titles(const plot *p) {
    char text[400];

    snprintf(text, sizeof(text),
             "%.200s: %u tokens after a prompt of %u, median and range of %u round%s", p->r->model,
             p->r->n_tokens, p->r->n_prompt, p->r->n_rounds, p->r->n_rounds == 1 ? "" : "s");
    put_label(p, LEFT, 26, "start", 15, text);
    put_label(p, LEFT, 46, "start", 12, p->r->machine);
}

/* A polyline through `value` of the configurations of first's series. */
static void put_curve(const plot *p, const slc_bench_config *first, bool bound,
                      const char *colour) {
    fprintf(p->f, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\"%s points=\"", colour,
            bound ? " stroke-dasharray=\"6 4\" opacity=\"0.7\"" : "");
    for (uint32_t i = 0; i < p->r->n_configs; i++) {
        const slc_bench_config *c = &p->r->configs[i];

        if (!c->n_runs || !slc_bench_same_series(c, first)) continue;
        fprintf(p->f, "%.1f,%.1f ", x_of(p, c),
                y_of(p, bound ? c->bound.tokens_per_s
                              : slc_bench_spread(c, "decode_tokens_per_s").median));
    }
    fputs("\"/>\n", p->f);
}

static void put_points(const plot *p, const slc_bench_config *first, const char *colour) {
    for (uint32_t i = 0; i < p->r->n_configs; i++) {
        const slc_bench_config *c = &p->r->configs[i];
        slc_spread rate = slc_bench_spread(c, "decode_tokens_per_s");
        double x = x_of(p, c);

        if (!c->n_runs || !slc_bench_same_series(c, first)) continue;
        put_line(p, x, y_of(p, rate.min), x, y_of(p, rate.max), colour, "");
        fprintf(p->f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\"/>\n", x,
                y_of(p, rate.median), colour);
    }
}

static bool is_first_of_series(const slc_bench_results *r, uint32_t i) {
    for (uint32_t k = 0; k < i; k++)
        if (slc_bench_same_series(&r->configs[k], &r->configs[i])) return false;
    return true;
}

/* Bounds depend on the policy alone: drawn in the colour of the first series that has it. */
static bool has_own_bound(const slc_bench_results *r, uint32_t i) {
    for (uint32_t k = 0; k < i; k++)
        if (slc_bench_same_policy(&r->configs[k], &r->configs[i])) return false;
    return true;
}

static void put_series(const plot *p) {
    double legend = TOP + 10, x = WIDTH - RIGHT + 16;
    char name[128];
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->r->n_configs; i++) {
        const slc_bench_config *c = &p->r->configs[i];
        const char *colour = colours[n % N_COLOURS];

        if (!is_first_of_series(p->r, i)) continue;
        if (has_own_bound(p->r, i)) put_curve(p, c, true, colour);
        put_curve(p, c, false, colour);
        put_points(p, c, colour);
        slc_bench_series(p->r, c, name);
        put_line(p, x, legend, x + 26, legend, colour, " stroke-width=\"2\"");
        put_label(p, x + 34, legend + 4, "start", 12, *name ? name : "measured");
        legend += 20;
        n++;
    }
    put_line(p, x, legend, x + 26, legend, "#555555",
             " stroke-width=\"2\" stroke-dasharray=\"6 4\"");
    put_label(p, x + 34, legend + 4, "start", 12, "roofline");
}

slc_status slc_bench_write_svg(const slc_bench_results *r, const char *path, slc_err *err) {
    plot p = {.f = fopen(path, "we"), .r = r};
    int failed;

    if (!p.f) return slc_fail_errno(err, errno, "%s: cannot write", path);
    find_scales(&p);
    fprintf(p.f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d "
            "%d\" font-family=\"sans-serif\">\n<rect width=\"100%%\" height=\"100%%\" "
            "fill=\"#ffffff\"/>\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT);
    put_titles(&p);
    put_axes(&p);
    put_series(&p);
    fputs("</svg>\n", p.f);
    failed = ferror(p.f);
    if (fclose(p.f) || failed) return slc_fail_errno(err, errno, "%s: cannot write", path);
    return SLC_OK;
}
