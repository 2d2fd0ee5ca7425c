// Every attention kernel this processor can run, against an f64 reference and against the guarantees of attention.h.
#define _DEFAULT_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
// cmocka wants the headers above.
#include <cmocka.h>

#include "backend/cpu/kernels/attention/attention.h"
#include "base/cpu.h"
#include "tensor/half.h"

static uint32_t g_seed = 1;
static uint32_t next_random(void) {
  g_seed = g_seed * 1664525u + 1013904223u;
  return g_seed >> 8;
}
static float uniform(void) { return (float)(int32_t)(next_random() << 8) * 0x1p-31f; }
static int64_t below(int64_t n) { return (int64_t)(next_random() % (uint32_t)n); }

// --- memory ---------------------------------------------------------------------------------------------------------------

// Memory whose last byte is followed by a page nobody may touch.
typedef struct guarded {
  char *map, *end;
  size_t bytes;
} guarded;

static guarded guarded_make(size_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page;
  guarded g = {.bytes = whole + page};
  g.map = mmap(NULL, g.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(g.map != MAP_FAILED);
  assert_int_equal(mprotect(g.map + whole, page, PROT_NONE), 0);
  g.end = g.map + whole;
  return g;
}

static void guarded_free(guarded *g) { munmap(g->map, g->bytes); }

static size_t width(int type) { return type == CRN_CACHE_F32 ? 4 : type == CRN_MASK_BOOL ? 1 : 2; }

static void store(void *data, int64_t i, float v, int type) {
  switch (type) {
    case CRN_CACHE_F32:
      ((float *)data)[i] = v;
      break;
    case CRN_CACHE_F16:
      ((uint16_t *)data)[i] = crn_f16_from_f32(v);
      break;
    case CRN_CACHE_BF16:
      ((uint16_t *)data)[i] = crn_bf16_from_f32(v);
      break;
    default:
      ((uint8_t *)data)[i] = v == 0;
      break;
  }
}

static float fetch(const void *data, int64_t i, int type) {
  switch (type) {
    case CRN_CACHE_F32:
      return ((const float *)data)[i];
    case CRN_CACHE_F16:
      return crn_f16_to_f32(((const uint16_t *)data)[i]);
    case CRN_CACHE_BF16:
      return crn_bf16_to_f32(((const uint16_t *)data)[i]);
    default:
      return ((const uint8_t *)data)[i] ? 0 : -10000;
  }
}

static double round_to(int type, double x) {
  float f = (float)x;
  if (type == CRN_CACHE_F16) return (double)crn_f16_to_f32(crn_f16_from_f32(f));
  return type == CRN_CACHE_BF16 ? (double)crn_bf16_to_f32(crn_bf16_from_f32(f)) : (double)f;
}

static bool same_bits(float a, float b) { return crn_f32_bits(a) == crn_f32_bits(b) || (a != a && b != b); }

// --- cases ----------------------------------------------------------------------------------------------------------------

enum { NO_MASK, CAUSAL_MASK, PADDING_MASK, HOLES_MASK, BIAS_MASK, DEAD_ROWS_MASK, INF_MASK, MASK_KINDS };

typedef struct spec {
  int64_t rows, positions, kv_heads, group, key_size, value_size;
  bool causal, sinks;
  int64_t window;
  int k_type, v_type, page_shift, mask_kind, mask_type, value_type;
  bool mask_per_head, mask_one_row, mask_strided;
  int64_t gap;  ///< elements between rows of the caches
  float size;   ///< of the scores, about
} spec;

// The caches as plain arrays [head][position][size], from which views of any page size are made.
typedef struct test_case {
  spec s;
  crn_attention a;
  float *keys, *values, *q, *sinks;
  guarded mask_memory;
} test_case;

static float mask_value(const spec *s, int64_t row, int64_t j) {
  int64_t own = s->positions - s->rows + row;
  uint32_t mixed = (uint32_t)(row * 2654435761u + (uint64_t)j * 40503u) >> 3;
  bool inside = true;
  switch (s->mask_kind) {
    case CAUSAL_MASK:
      inside = j <= own;
      break;
    case PADDING_MASK:
      inside = j >= s->positions / 3 && j <= own;
      break;
    case HOLES_MASK:
      inside = mixed % 3 != 0 || j == 0;
      break;
    case BIAS_MASK:
      return (float)(mixed % 17) * 0.25f - 2;
    case DEAD_ROWS_MASK:
      inside = row % 2 == 0 && j % 70 < 9;
      break;
    default:
      break;
  }
  return inside ? 0 : s->mask_kind == INF_MASK ? -INFINITY : -10000;
}

static void make_mask(test_case *c) {
  const spec *s = &c->s;
  int64_t heads = s->mask_per_head ? s->kv_heads * s->group : 1, rows = s->mask_one_row ? 1 : s->rows, step = s->mask_strided ? 3 : 1;
  int64_t count = heads * rows * s->positions * step;
  c->mask_memory = guarded_make((size_t)count * width(s->mask_type));
  void *mask = c->mask_memory.end - ((size_t)count - (size_t)(step - 1)) * width(s->mask_type);
  for (int64_t h = 0; h < heads; h++) {
    for (int64_t r = 0; r < rows; r++) {
      for (int64_t j = 0; j < s->positions; j++) {
        float v = mask_value(s, s->mask_one_row ? s->rows - 1 : r, j + 5 * h);
        if (s->mask_kind == INF_MASK && (j + r + h) % 4 == 1) v = -INFINITY;
        store(mask, ((h * rows + r) * s->positions + j) * step, v, s->mask_type);
      }
    }
  }
  c->a.mask = mask;
  c->a.mask_type = s->mask_type;
  c->a.mask_position_stride = step;
  c->a.mask_row_stride = s->mask_one_row ? 0 : s->positions * step;
  c->a.mask_head_stride = s->mask_per_head ? rows * s->positions * step : 0;
}

static float *floats(int64_t n, int type, float scale) {
  float *data = malloc((size_t)n * sizeof(float));
  assert_non_null(data);
  for (int64_t i = 0; i < n; i++) data[i] = (float)round_to(type, (double)(uniform() * scale));
  return data;
}

static test_case case_make(const spec *s) {
  test_case c = {.s = *s};
  int64_t heads = s->kv_heads * s->group;
  c.a = (crn_attention){.heads = heads, .kv_heads = s->kv_heads, .rows = s->rows, .key_size = s->key_size, .value_size = s->value_size};
  c.a.positions = s->positions, c.a.causal = s->causal, c.a.window = s->window, c.a.value_type = s->value_type;
  c.a.scale = s->size / sqrtf((float)s->key_size);
  c.keys = floats(s->kv_heads * s->positions * s->key_size, s->k_type, 1.5f);
  c.values = floats(s->kv_heads * s->positions * s->value_size, s->v_type, 1);
  c.a.q_head_stride = s->key_size + 3, c.a.q_row_stride = heads * c.a.q_head_stride;
  c.a.q = c.q = floats(s->rows * c.a.q_row_stride, CRN_CACHE_F32, 1.5f);
  c.a.sinks = c.sinks = s->sinks ? floats(heads, CRN_CACHE_F32, 3) : NULL;
  if (s->mask_kind != NO_MASK) make_mask(&c);
  return c;
}

static void case_free(test_case *c) {
  free(c->keys), free(c->values), free(c->q), free(c->sinks);
  if (c->a.mask) guarded_free(&c->mask_memory);
}

// What row `row` of head `head` looks at: n positions, with the values to add to their scores. Returns whether all are masked.
static bool looked_at(const test_case *c, int64_t head, int64_t row, bool *sees, double *added) {
  const crn_attention *a = &c->a;
  int64_t own = a->positions - a->rows + row, n = 0, alive = 0;
  for (int64_t j = 0; j < a->positions; j++) {
    sees[j] = (!a->causal || j <= own) && (!a->window || (j > own - a->window && (a->causal || j < own + a->window)));
    n += sees[j];
  }
  for (int64_t j = 0; j < a->positions; j++) {
    if (n == 0) sees[j] = true;
    added[j] = n == 0 ? -10000 : 0;
    if (a->mask && n > 0) {
      added[j] = (double)fetch(a->mask, head * a->mask_head_stride + row * a->mask_row_stride + j * a->mask_position_stride, a->mask_type);
    }
    alive += sees[j] && added[j] > -9000;
  }
  for (int64_t j = 0; j < a->positions; j++) {
    if (alive && added[j] <= -9000) sees[j] = false;
  }
  return alive == 0;
}

// Views of a case's caches: pages that end at a guard page, everything no row sees and all gaps filled with NaN.
typedef struct cache {
  crn_cache_view view;
  const void **pages;
  guarded *memory;
  int64_t n_pages;
} cache;

static cache cache_make(const test_case *c, const float *data, int64_t size, int type, int page_shift, const bool *seen) {
  const spec *s = &c->s;
  cache made = {.view = {.type = type, .page_shift = page_shift, .position_stride = size + s->gap}};
  int64_t per_page = page_shift == CRN_CACHE_ONE_PAGE ? s->positions : (int64_t)1 << page_shift;
  made.n_pages = (s->positions + per_page - 1) / per_page;
  made.view.head_stride = per_page * made.view.position_stride;
  made.pages = calloc((size_t)made.n_pages, sizeof *made.pages);
  made.memory = calloc((size_t)made.n_pages, sizeof *made.memory);
  made.view.pages = made.pages;
  for (int64_t p = 0; p < made.n_pages; p++) {
    int64_t count = s->kv_heads * made.view.head_stride - s->gap;
    made.memory[p] = guarded_make((size_t)count * width(type));
    char *page = made.memory[p].end - (size_t)count * width(type);
    made.pages[p] = page;
    for (int64_t i = 0; i < count; i++) store(page, i, NAN, type);
    for (int64_t h = 0; h < s->kv_heads; h++) {
      for (int64_t i = 0; i < per_page && p * per_page + i < s->positions; i++) {
        int64_t j = p * per_page + i;
        if (!seen[h * s->positions + j]) continue;
        const float *row = data + (h * s->positions + j) * size;
        for (int64_t d = 0; d < size; d++) store(page, h * made.view.head_stride + i * made.view.position_stride + d, row[d], type);
      }
    }
  }
  return made;
}

static void cache_free(cache *c) {
  for (int64_t p = 0; p < c->n_pages; p++) guarded_free(&c->memory[p]);
  free(c->pages), free(c->memory);
}

// --- running --------------------------------------------------------------------------------------------------------------

static void run_kernel(const crn_attention_kernel *kernel, const crn_attention *a, int n_workers, bool backwards) {
  crn_attention_plan plan;
  kernel->plan(kernel, a, n_workers, &plan);
  guarded scratch = guarded_make(plan.worker_bytes), shared = guarded_make(plan.shared_bytes + 1);
  char *worker = scratch.end - (plan.worker_bytes + 63) / 64 * 64, *common = shared.end - (plan.shared_bytes + 63) / 64 * 64;
  assert_int_equal(plan.worker_bytes % 64, 0);
  for (int64_t j = 0; j < plan.jobs; j++) {
    memset(worker, 0xff, plan.worker_bytes);
    kernel->run(kernel, a, &plan, backwards ? plan.jobs - 1 - j : j, worker, common);
  }
  for (int64_t j = 0; j < plan.merge_jobs; j++) {
    memset(worker, 0xff, plan.worker_bytes);
    kernel->merge(kernel, a, &plan, backwards ? plan.merge_jobs - 1 - j : j, worker, common);
  }
  guarded_free(&scratch), guarded_free(&shared);
}

// Runs rows [first, first + n) of a case; out is [head][row][value].
static void run_rows(const crn_attention_kernel *kernel, const test_case *c, const cache *k, const cache *v, int64_t first, int64_t n,
                     float *out) {
  crn_attention a = c->a;
  a.k = k->view, a.v = v->view;
  a.rows = n;
  a.positions = c->a.positions - c->a.rows + first + n;
  a.q += first * a.q_row_stride;
  if (a.mask) a.mask = (const char *)a.mask + (size_t)(first * a.mask_row_stride) * width(a.mask_type);
  // A mask may look further than the rows' own positions, and so do ranges that are not causal.
  if (!a.causal) assert_true(first == 0 && n == c->a.rows);
  a.out_row_stride = a.value_size + 1, a.out_head_stride = n * a.out_row_stride;
  int64_t count = a.heads * a.out_head_stride;
  guarded memory = guarded_make((size_t)count * sizeof(float));
  a.out = (float *)(memory.end - (size_t)(count - 1) * sizeof(float));
  for (int64_t i = 0; i < count - 1; i++) a.out[i] = 777;
  run_kernel(kernel, &a, 1 + (int)(next_random() % 3), next_random() & 1);
  for (int64_t h = 0; h < a.heads; h++) {
    for (int64_t r = 0; r < n; r++) {
      const float *row = a.out + h * a.out_head_stride + r * a.out_row_stride;
      memcpy(out + (h * c->a.rows + first + r) * a.value_size, row, (size_t)a.value_size * sizeof(float));
      if (h + 1 < a.heads || r + 1 < n) assert_true(row[a.value_size] == 777);
    }
  }
  guarded_free(&memory);
}

// The f64 reference of one row; `magnitude` receives what errors are relative to.
static void reference_row(const test_case *c, int64_t head, int64_t row, double *out, double *magnitude, double *out_score_error) {
  const crn_attention *a = &c->a;
  int64_t n = a->positions, kv = head / (a->heads / a->kv_heads);
  bool *sees = malloc((size_t)n * sizeof *sees);
  double *score = malloc((size_t)n * sizeof *score), *added = malloc((size_t)n * sizeof *added), top = -INFINITY, sum = 0, products = 0;
  bool masked = looked_at(c, head, row, sees, added);
  const float *q = a->q + row * a->q_row_stride + head * a->q_head_stride;
  for (int64_t j = 0; j < n; j++) {
    if (!sees[j]) continue;
    double s = 0, all = 0;
    for (int64_t d = 0; d < a->key_size; d++) {
      double p = (double)(q[d] * a->scale) * (double)c->keys[(kv * n + j) * a->key_size + d];
      s += p, all += fabs(p);
    }
    if (masked) {
      s = round_to(a->value_type, round_to(a->value_type, s) + round_to(a->value_type, added[j]));
    } else {
      s += added[j];
    }
    score[j] = s;
    if (all > products) products = all;
    if (s > top || s != s) top = s;
  }
  if (a->sinks && (double)a->sinks[head] > top) top = (double)a->sinks[head];
  for (int64_t d = 0; d < a->value_size; d++) out[d] = magnitude[d] = 0;
  for (int64_t j = 0; j < n; j++) {
    if (!sees[j]) continue;
    double p = exp(score[j] - top);
    sum += p;
    for (int64_t d = 0; d < a->value_size; d++) {
      double v = (double)c->values[(kv * n + j) * a->value_size + d];
      out[d] += p * v, magnitude[d] += p * fabs(v);
    }
  }
  if (a->sinks) sum += exp((double)a->sinks[head] - top);
  for (int64_t d = 0; d < a->value_size; d++) out[d] /= sum, magnitude[d] /= sum;
  *out_score_error = products * (double)(a->key_size / 16 + 12) * 0x1p-24 + (masked && a->value_type == CRN_CACHE_F32 ? 0x1p-9 : 0);
  if (!masked && a->mask && c->s.mask_kind == BIAS_MASK) *out_score_error += 0x1p-21;
  free(sees), free(score), free(added);
}

typedef struct expected {
  double *out, *magnitude, *score_error;
} expected;

static expected expected_make(const test_case *c) {
  size_t n = (size_t)(c->a.heads * c->a.rows);
  expected e = {malloc(n * (size_t)c->a.value_size * sizeof(double)), malloc(n * (size_t)c->a.value_size * sizeof(double)),
                malloc(n * sizeof(double))};
  for (int64_t i = 0; i < (int64_t)n; i++) {
    int64_t at = i * c->a.value_size;
    reference_row(c, i / c->a.rows, i % c->a.rows, e.out + at, e.magnitude + at, e.score_error + i);
  }
  return e;
}

static void expected_free(expected *e) { free(e->out), free(e->magnitude), free(e->score_error); }

static void describe(const crn_attention_kernel *kernel, const spec *s) {
  print_message(
      "%s: %d rows, %d positions, %d x %d heads of %d and %d, causal %d, window %d, sinks %d, types %d %d, page shift %d, "
      "mask %d of type %d (%d %d %d), value type %d\n",
      kernel->name, (int)s->rows, (int)s->positions, (int)s->kv_heads, (int)s->group, (int)s->key_size, (int)s->value_size, s->causal,
      (int)s->window, s->sinks, s->k_type, s->v_type, s->page_shift, s->mask_kind, s->mask_type, s->mask_per_head, s->mask_one_row,
      s->mask_strided, s->value_type);
}

static void check_near(const crn_attention_kernel *kernel, const test_case *c, const expected *e, const float *out) {
  for (int64_t i = 0; i < c->a.heads * c->a.rows; i++) {
    for (int64_t d = 0; d < c->a.value_size; d++) {
      int64_t at = i * c->a.value_size + d;
      double got = (double)out[at], want = e->out[at], relative = 2 * e->score_error[i] + (double)(c->a.positions + 64) * 0x1p-24;
      if (kernel->mode == CRN_ATTENTION_BF16) relative = 0x1p-6 + e->score_error[i] * 0x1p17 / (double)(c->a.key_size / 16 + 12);
      double tolerance = relative * e->magnitude[at] + 0x1p-120;
      if (got != got && want != want) continue;
      if (fabs(got - want) <= tolerance) continue;
      describe(kernel, &c->s);
      fail_msg("head %d, row %d, value %d: got %.9g, want %.9g within %.3g", (int)(i / c->a.rows), (int)(i % c->a.rows), (int)d, got, want,
               tolerance);
    }
  }
}

#define FOR_EACH_KERNEL(kernel)                                                        \
  int n_kernels;                                                                       \
  const crn_attention_kernel *kernel = crn_attention_list(&n_kernels);                 \
  for (const crn_attention_kernel *last = kernel + n_kernels; kernel < last; kernel++) \
    if ((kernel->isa & ~crn_cpu_bits()) == 0)

// Knowing the extent of the mask changes nothing.
static void check_extent(const crn_attention_kernel *kernel, const test_case *c, const cache *k, const cache *v, const float *want) {
  test_case known = *c;
  int64_t count = c->a.heads * c->a.rows * c->a.value_size;
  crn_attention_find_mask_extent(&known.a);
  float *got = malloc((size_t)count * sizeof(float));
  run_rows(kernel, &known, k, v, 0, c->a.rows, got);
  for (int64_t i = 0; i < count; i++) {
    if (same_bits(want[i], got[i])) continue;
    describe(kernel, &c->s);
    fail_msg("with the mask's extent, [%d, %d), value %d differs", (int)known.a.mask_low, (int)known.a.mask_high, (int)i);
  }
  free(got);
}

// All kernels on one case; exact ones with FMA must agree in every bit.
static void check_case(const spec *s) {
  test_case c = case_make(s);
  int64_t n = s->positions, count = c.a.heads * s->rows * s->value_size;
  bool *seen = calloc((size_t)(s->kv_heads * n), sizeof *seen), *sees = malloc((size_t)n * sizeof *sees);
  double *added = malloc((size_t)n * sizeof *added);
  for (int64_t i = 0; i < c.a.heads * s->rows; i++) {
    int64_t head = i / s->rows;
    looked_at(&c, head, i % s->rows, sees, added);
    for (int64_t j = 0; j < n; j++) seen[head / s->group * n + j] |= sees[j];
  }
  cache k = cache_make(&c, c.keys, s->key_size, s->k_type, s->page_shift, seen);
  cache v = cache_make(&c, c.values, s->value_size, s->v_type, s->page_shift, seen);
  expected e = expected_make(&c);
  float *first = NULL, *out = malloc((size_t)count * sizeof(float));
  FOR_EACH_KERNEL(kernel) {
    run_rows(kernel, &c, &k, &v, 0, s->rows, out);
    check_near(kernel, &c, &e, out);
    if (c.a.mask) check_extent(kernel, &c, &k, &v, out);
    if (kernel->mode != CRN_ATTENTION_EXACT || kernel->isa == 0) continue;
    if (!first) {
      first = malloc((size_t)count * sizeof(float));
      memcpy(first, out, (size_t)count * sizeof(float));
    }
    for (int64_t i = 0; i < count; i++) {
      if (same_bits(first[i], out[i])) continue;
      describe(kernel, s);
      fail_msg("value %d differs from the first kernel's: %.9g and %.9g", (int)i, (double)out[i], (double)first[i]);
    }
  }
  free(first), free(out), free(seen), free(sees), free(added);
  expected_free(&e);
  cache_free(&k), cache_free(&v);
  case_free(&c);
}

// --- tests ----------------------------------------------------------------------------------------------------------------

static spec usual(void) {
  return (spec){.rows = 5,
                .positions = 100,
                .kv_heads = 2,
                .group = 2,
                .key_size = 64,
                .value_size = 64,
                .causal = true,
                .k_type = CRN_CACHE_F16,
                .v_type = CRN_CACHE_F16,
                .page_shift = CRN_CACHE_ONE_PAGE,
                .value_type = CRN_CACHE_F16,
                .size = 1};
}

static void rows_and_positions(void **state) {
  (void)state;
  for (int64_t rows = 1; rows <= 70; rows += rows < 10 ? 1 : 7) {
    for (int64_t positions = 1; positions <= 700; positions += positions < 5 ? 1 : 1 + below(90)) {
      spec s = usual();
      s.rows = rows, s.positions = positions, s.kv_heads = 1, s.key_size = 16, s.value_size = 16;
      check_case(&s);
    }
  }
}

static void sizes_and_types(void **state) {
  (void)state;
  static const int64_t sizes[] = {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 40, 48, 64, 80, 96, 100, 127, 128, 129, 160, 192, 256, 320};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    for (int type = 0; type < CRN_CACHE_TYPES; type++) {
      for (int64_t rows = 1; rows <= 33; rows = rows * 3 + 1) {
        spec s = usual();
        s.key_size = sizes[i], s.value_size = sizes[(i * 7 + (size_t)type) % (sizeof sizes / sizeof *sizes)];
        if (rows == 4) s.value_size = s.key_size;
        s.k_type = type, s.v_type = (type + (rows == 13)) % CRN_CACHE_TYPES, s.rows = rows, s.gap = rows % 3, s.group = 1 + (int64_t)i % 8;
        s.positions = 70 + below(40);
        check_case(&s);
      }
    }
  }
}

static void groups(void **state) {
  (void)state;
  for (int64_t group = 1; group <= 9; group++) {
    for (int64_t rows = 1; rows <= 20; rows += 1 + rows / 2) {
      for (int64_t kv_heads = 1; kv_heads <= 3; kv_heads++) {
        spec s = usual();
        s.group = group, s.rows = rows, s.kv_heads = kv_heads, s.positions = 290, s.key_size = 32, s.value_size = 48, s.sinks = group % 2;
        check_case(&s);
      }
    }
  }
}

static void random_cases(void **state) {
  (void)state;
  for (int i = 0; i < 350; i++) {
    spec s = {.rows = 1 + below(i % 3 ? 6 : 70), .positions = 1 + below(700), .kv_heads = 1 + below(3), .group = 1 + below(8)};
    s.key_size = 1 + below(140), s.value_size = i % 2 ? s.key_size : 1 + below(140);
    s.k_type = (int)below(3), s.v_type = i % 4 ? s.k_type : (int)below(3), s.value_type = (int)below(3), s.gap = below(3);
    s.page_shift = i % 3 ? 4 + (int)below(5) : i % 2 ? CRN_CACHE_ONE_PAGE : (int)below(4);
    s.causal = below(4) != 0, s.window = below(3) ? 0 : 1 + below(i % 5 ? 90 : 600), s.sinks = below(3) == 0;
    s.size = below(5) ? 1 : 30;
    if (i % 2) {
      s.mask_kind = (int)below(MASK_KINDS), s.mask_type = (int)below(4);
      s.mask_per_head = below(3) == 0, s.mask_one_row = below(5) == 0, s.mask_strided = below(5) == 0;
      if (s.mask_type == CRN_MASK_BOOL && s.mask_kind == BIAS_MASK) s.mask_kind = HOLES_MASK;
      if (below(3)) s.causal = false, s.window = 0;
    }
    check_case(&s);
  }
}

// Rows whose window lies outside of what the mask leaves, before and behind rows that see something.
static void windows_beyond_the_mask(void **state) {
  (void)state;
  for (int i = 0; i < 8; i++) {
    spec s = usual();
    s.rows = 38, s.positions = i % 2 ? 102 : 500, s.window = 12, s.causal = i % 4 < 2, s.value_type = i % 3;
    s.mask_kind = DEAD_ROWS_MASK, s.mask_type = i % 4, s.mask_per_head = i > 3;
    check_case(&s);
  }
}

static void long_contexts(void **state) {
  (void)state;
  for (int i = 0; i < 8; i++) {
    spec s = usual();
    s.positions = 5000 + i, s.rows = i % 4 ? 1 + i : 40, s.kv_heads = 1, s.page_shift = i % 2 ? 8 : CRN_CACHE_ONE_PAGE;
    s.window = i == 5 ? 1000 : 0, s.size = i == 6 ? 20 : 1, s.mask_kind = i == 7 ? HOLES_MASK : NO_MASK, s.mask_type = CRN_CACHE_F16;
    check_case(&s);
  }
}

// Calls whose jobs have several heads each, for one to three workers: long and short contexts, pages of which a job reads all heads in
// turn, windows that begin within a range, and every set of heads that divides.
static void heads_together(void **state) {
  (void)state;
  static const int64_t positions[] = {64, 300, 1030, 2305, 3400, 7000};
  static const int shifts[] = {6, 7, 8, 5, CRN_CACHE_ONE_PAGE};
  for (int i = 0; i < 30; i++) {
    spec s = usual();
    s.kv_heads = (int64_t[]){8, 4, 6, 9, 5, 16}[i % 6], s.group = 1 + i % 2, s.rows = i % 3 ? 1 : 3;
    s.positions = positions[(i / 2) % 6] + i, s.page_shift = shifts[i % 5], s.k_type = s.v_type = i % 7 < 5 ? CRN_CACHE_F16 : i % 3;
    s.key_size = i % 4 == 3 ? 40 : 32, s.value_size = 16, s.sinks = i % 4 == 1;
    s.window = i % 5 == 2 ? 700 : 0, s.mask_kind = i % 6 == 3 ? HOLES_MASK : NO_MASK, s.mask_type = CRN_CACHE_F16;
    if (s.mask_kind != NO_MASK) s.causal = false, s.window = 0, s.sinks = false;
    check_case(&s);
  }
}

// A row alone, in every chunk of rows, on every page size and in a cache of any size: the same bits.
static void exact_rows_do_not_depend_on_the_call(void **state) {
  (void)state;
  for (int i = 0; i < 12; i++) {
    spec s = usual();
    s.rows = 37, s.positions = 37 + (i % 3) * 263, s.window = i % 4 == 3 ? 50 : 0, s.sinks = i % 5 == 4, s.k_type = s.v_type = i % 3;
    s.key_size = s.value_size = i % 2 ? 96 : 52;
    test_case c = case_make(&s);
    int64_t n = s.positions, count = c.a.heads * s.rows * s.value_size;
    bool *seen = malloc((size_t)(s.kv_heads * n) * sizeof *seen);
    for (int64_t j = 0; j < s.kv_heads * n; j++) seen[j] = true;
    float *want = malloc((size_t)count * sizeof(float)), *got = malloc((size_t)count * sizeof(float));
    const crn_attention_kernel *first = NULL;
    for (int shift = 0; shift < 9; shift += 2) {
      int page_shift = shift ? shift : CRN_CACHE_ONE_PAGE;
      cache k = cache_make(&c, c.keys, s.key_size, s.k_type, page_shift, seen);
      cache v = cache_make(&c, c.values, s.value_size, s.v_type, page_shift, seen);
      FOR_EACH_KERNEL(kernel) {
        if (kernel->mode != CRN_ATTENTION_EXACT || kernel->isa == 0) continue;
        if (!first) run_rows(first = kernel, &c, &k, &v, 0, s.rows, want);
        for (int64_t chunk = 1; chunk <= 37; chunk += chunk < 4 ? 1 : 11) {
          for (int64_t row = 0; row < s.rows; row += chunk) {
            run_rows(kernel, &c, &k, &v, row, s.rows - row < chunk ? s.rows - row : chunk, got);
          }
          for (int64_t j = 0; j < count; j++) {
            if (!same_bits(want[j], got[j])) {
              describe(kernel, &s);
              fail_msg("chunks of %d rows: value %d differs", (int)chunk, (int)j);
            }
          }
        }
      }
      cache_free(&k), cache_free(&v);
    }
    free(seen), free(want), free(got);
    case_free(&c);
  }
}

// One key or value becomes NaN or infinite: rows that do not see it keep their bits, rows that see a NaN become NaN.
static void strange_numbers_stay_in_their_rows(void **state) {
  (void)state;
  for (int i = 0; i < 24; i++) {
    spec s = usual();
    s.rows = i % 2 ? 40 : 6, s.positions = 150, s.k_type = s.v_type = i % 3, s.kv_heads = 1, s.group = 1 + i % 4;
    s.mask_kind = i % 4 == 3 ? HOLES_MASK : NO_MASK, s.causal = s.mask_kind == NO_MASK, s.mask_type = CRN_CACHE_F16;
    test_case c = case_make(&s);
    int64_t n = s.positions, count = c.a.heads * s.rows * s.value_size, at = 150 - 4 - i % 2;
    bool *seen = malloc((size_t)n * sizeof *seen), *sees = malloc((size_t)n * sizeof *sees);
    double *added = malloc((size_t)n * sizeof *added);
    for (int64_t j = 0; j < n; j++) seen[j] = true;
    float *want = malloc((size_t)count * sizeof(float)), *got = malloc((size_t)count * sizeof(float));
    FOR_EACH_KERNEL(kernel) {
      for (int what = 0; what < 3; what++) {
        float *place = what == 0 ? &c.keys[at * s.key_size + 5] : &c.values[at * s.value_size + 5], kept = *place;
        cache k = cache_make(&c, c.keys, s.key_size, s.k_type, 4, seen), v = cache_make(&c, c.values, s.value_size, s.v_type, 4, seen);
        run_rows(kernel, &c, &k, &v, 0, s.rows, want);
        cache_free(&k), cache_free(&v);
        *place = what == 2 ? INFINITY : NAN;
        k = cache_make(&c, c.keys, s.key_size, s.k_type, 4, seen), v = cache_make(&c, c.values, s.value_size, s.v_type, 4, seen);
        run_rows(kernel, &c, &k, &v, 0, s.rows, got);
        cache_free(&k), cache_free(&v);
        *place = kept;
        for (int64_t r = 0; r < c.a.heads * s.rows; r++) {
          looked_at(&c, r / s.rows, r % s.rows, sees, added);
          for (int64_t d = 0; d < s.value_size; d++) {
            float w = want[r * s.value_size + d], g = got[r * s.value_size + d];
            bool hit = sees[at] && (what == 0 || d == 5), fine = hit ? (what == 2 ? g == INFINITY : g != g) : same_bits(w, g);
            if (fine) continue;
            describe(kernel, &s);
            fail_msg("case %d: row %d, value %d is %g, was %g", what, (int)(r % s.rows), (int)d, (double)g, (double)w);
          }
        }
      }
    }
    free(seen), free(sees), free(added), free(want), free(got);
    case_free(&c);
  }
}

// Scores of ±10000, scores that are all equal, scores that overflow to -inf, a row of nothing but -inf.
static void extreme_scores(void **state) {
  (void)state;
  enum { N = 130, D = 16 };
  static float keys[N * D], values[N * D], q[40 * D], out[40 * D];
  for (int i = 0; i < N * D; i++) values[i] = (float)(i / D % 7) + 1;
  const void *k_page[1] = {keys}, *v_page[1] = {values};
  crn_attention a = {.heads = 1,
                     .kv_heads = 1,
                     .key_size = D,
                     .value_size = D,
                     .positions = N,
                     .scale = 1,
                     .q = q,
                     .q_row_stride = D,
                     .q_head_stride = 40 * D,
                     .k = {CRN_CACHE_F32, k_page, CRN_CACHE_ONE_PAGE, N * D, D},
                     .v = {CRN_CACHE_F32, v_page, CRN_CACHE_ONE_PAGE, N * D, D},
                     .out = out,
                     .out_row_stride = D,
                     .out_head_stride = 40 * D};
  FOR_EACH_KERNEL(kernel) {
    for (int rows = 1; rows <= 40; rows += 39) {
      a.rows = rows;
      for (int what = 0; what < 5; what++) {
        for (int i = 0; i < N * D; i++) keys[i] = 0;
        for (int r = 0; r < rows; r++) q[r * D] = 100;
        double want = 0;
        for (int j = 0; j < N; j++) {
          if (what == 0) keys[j * D] = j == 77 ? 100 : -100;  // one position wins by 20000
          if (what == 1) keys[j * D] = -100;                  // all equal
          if (what == 2) keys[j * D] = j < 64 ? -3e38f : 1;   // the first block overflows to -inf
          if (what == 3) keys[j * D] = -3e38f;                // all do
          if (what == 4) keys[j * D] = j == 129 ? 100 : (float)-j;
          if (what == 1) want += (double)(j % 7 + 1) / N;
          if (what == 2 && j >= 64) want += (double)(j % 7 + 1) / (N - 64);
        }
        if (what == 0) want = 77 % 7 + 1;
        if (what == 4) want = 129 % 7 + 1;
        run_kernel(kernel, &a, 1, false);
        for (int i = 0; i < rows * D; i++) {
          double tolerance = kernel->mode == CRN_ATTENTION_EXACT ? 1e-5 : 0.03;
          bool fine = what == 3 ? out[i] != out[i] : fabs((double)out[i] - want) <= tolerance;
          if (!fine) fail_msg("%s: case %d, value %d is %g, want %g", kernel->name, what, i, (double)out[i], want);
        }
      }
    }
  }
}

static void selection_follows_the_processor(void **state) {
  (void)state;
  int n;
  const crn_attention_kernel *list = crn_attention_list(&n);
  assert_true(list[n - 1].isa == 0);
  test_case c = case_make(&(spec){.rows = 4, .positions = 9, .kv_heads = 1, .group = 2, .key_size = 8, .value_size = 8, .size = 1});
  for (int mode = 0; mode < 2; mode++) {
    for (int64_t rows = 1; rows < 200; rows += 20) {
      c.a.rows = rows;
      const crn_attention_kernel *chosen = crn_attention_select(mode, &c.a);
      assert_non_null(chosen);
      assert_true((chosen->isa & ~crn_cpu_bits()) == 0 && chosen->mode <= mode && chosen->min_items <= 2 * rows);
      for (const crn_attention_kernel *better = list; better < chosen; better++) {
        assert_true((better->isa & ~crn_cpu_bits()) != 0 || better->mode > mode || better->min_items > 2 * rows ||
                    chosen->mode > better->mode);
      }
    }
  }
  crn_attention bad = c.a;
  bad.positions = 0;
  assert_null(crn_attention_select(0, &bad));
  bad = c.a;
  bad.heads = 3, bad.kv_heads = 2;
  assert_null(crn_attention_select(0, &bad));
  bad = c.a;
  bad.k.type = CRN_MASK_BOOL;
  assert_null(crn_attention_select(0, &bad));
  case_free(&c);
}

// With an argument only the tests it matches, a pattern of cmocka's.
int main(int argc, char **argv) {
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_and_positions),
      cmocka_unit_test(sizes_and_types),
      cmocka_unit_test(groups),
      cmocka_unit_test(random_cases),
      cmocka_unit_test(windows_beyond_the_mask),
      cmocka_unit_test(long_contexts),
      cmocka_unit_test(heads_together),
      cmocka_unit_test(exact_rows_do_not_depend_on_the_call),
      cmocka_unit_test(strange_numbers_stay_in_their_rows),
      cmocka_unit_test(extreme_scores),
      cmocka_unit_test(selection_follows_the_processor),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
