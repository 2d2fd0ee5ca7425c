#include "lm.h"

#include <math.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/json.h"
#include "tensor/tensor.h"

void lm_expect(cairn_status status, cairn_status expected, const char *part) {
  char message[2048];
  cairn_last_error_text(message, sizeof message);
  if (status != expected) fail_msg("%s (%s) instead of %s", cairn_status_name(status), status ? message : "", cairn_status_name(expected));
  if (expected != CAIRN_OK && !strstr(message, part)) fail_msg("'%s' does not hold '%s'", message, part);
}

void lm_need(const char *path) {
  if (access(path, R_OK) != 0) {
    print_message("skipped: %s is not there\n", path);
    skip();
  }
}

static void print_warning(void *user, cairn_log_level level, const char *line) {
  (void)user;
  (void)level;
  if (getenv("LM_VERBOSE")) print_message("log: %s\n", line);
}

cairn_context *lm_context(int n_threads) {
  cairn_context *context;
  cairn_context_options options = {.n_threads = n_threads, .log_level = CAIRN_LOG_WARNING, .log = print_warning};
  LM_OK(cairn_context_create(&options, &context));
  return context;
}

cairn_llm *lm_open(cairn_context *context, const char *name, const cairn_llm_options *options) {
  char path[512];
  cairn_llm *llm;
  cairn_llm_options o = options ? *options : (cairn_llm_options){0};
  const char *engine = getenv("CAIRN_TEST_ENGINE");
  snprintf(path, sizeof path, "%s%s", *name == '/' ? "" : LM_MODELS, name);
  // Whole programs of tests run again with another engine where the model and the test leave the choice.
  if (engine && !o.engine && !strstr(name, "-ios")) o.engine = engine;
  // And with other storage: "paged", "paged 128", "chunked", …
  const char *kv = getenv("CAIRN_TEST_KV");
  char strategy[16];
  if (kv && !o.kv && sscanf(kv, "%15s", strategy) == 1) {
    const char *rows = strchr(kv, ' ');
    o.kv = strategy;
    o.kv_page = rows ? atoi(rows) : 0;
    cairn_status status = cairn_llm_open(context, path, &o, &llm);
    if (status != CAIRN_UNSUPPORTED) {
      LM_OK(status);
      return llm;
    }
    o.kv = NULL;
    o.kv_page = 0;
  }
  LM_OK(cairn_llm_open(context, path, &o, &llm));
  return llm;
}

const char *lm_engine(const cairn_llm *llm) {
  cairn_llm_info info;
  cairn_llm_describe(llm, &info);
  return info.engine;
}

cairn_llm *lm_open_path(cairn_context *context, const char *path, const cairn_llm_options *options) {
  cairn_llm *llm;
  LM_OK(cairn_llm_open(context, path, options, &llm));
  return llm;
}

void lm_fill(int32_t *tokens, int64_t n, uint32_t seed, uint32_t vocab) {
  for (int64_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    tokens[i] = (int32_t)((seed >> 8) % vocab);
  }
}

int lm_remove_folder(const char *path) {
  char command[256];
  snprintf(command, sizeof command, "rm -rf '%s'", path);
  return system(command);
}

// --- memory ---------------------------------------------------------------------------------------------------------

static void *count_alloc(void *self, size_t bytes, size_t align) {
  lm_counting *c = self;
  if (atomic_fetch_add(&c->n_allocations, 1) + 1 == atomic_load(&c->fail_at)) return NULL;
  const cairn_allocator *a = crn_default_allocator();
  void *p = a->alloc(a->self, bytes, align);
  if (p) {
    atomic_fetch_add(&c->n_live, 1);
    atomic_fetch_add(&c->bytes, (long long)bytes);
  }
  return p;
}

static void count_free(void *self, void *pointer, size_t bytes) {
  lm_counting *c = self;
  const cairn_allocator *a = crn_default_allocator();
  if (pointer) {
    atomic_fetch_sub(&c->n_live, 1);
    atomic_fetch_sub(&c->bytes, (long long)bytes);
  }
  a->free(a->self, pointer, bytes);
}

cairn_context *lm_counted_context(lm_counting *c, int n_threads) { return lm_counted_context_with(c, n_threads, NULL, NULL); }

cairn_context *lm_counted_context_with(lm_counting *c, int n_threads, cairn_log_fn log, void *user) {
  cairn_context *context;
  *c = (lm_counting){0};
  const cairn_allocator allocator = {c, count_alloc, count_free};
  const cairn_context_options options = {
      .allocator = &allocator, .n_threads = n_threads, .log_level = CAIRN_LOG_WARNING, .log = log, .log_user = user};
  LM_OK(cairn_context_create(&options, &context));
  return context;
}

// --- goldens --------------------------------------------------------------------------------------------------------

static void *need_memory(void *p) {
  assert_non_null(p);
  return p;
}

void lm_rows_free(lm_rows *rows) {
  free(rows->data);
  *rows = (lm_rows){0};
}

crn_safetensors *lm_goldens(const char *bundle) {
  char path[512];
  crn_safetensors *file;
  snprintf(path, sizeof path, LM_MODELS "%s/golden.safetensors", bundle);
  LM_OK(crn_safetensors_open(NULL, path, &file));
  return file;
}

lm_rows lm_golden_rows(const crn_safetensors *file, const char *name) {
  const crn_safetensors_entry *e = crn_safetensors_find(file, name);
  if (!e) return (lm_rows){0};
  int64_t count = crn_tensor_count(&e->tensor), width = e->tensor.dims[e->tensor.rank - 1];
  lm_rows rows = {.n = count / width, .width = width, .capacity = count / width};
  rows.data = need_memory(malloc((size_t)count * sizeof *rows.data));
  crn_convert(e->tensor.dtype, e->tensor.data, CAIRN_F32, rows.data, count);
  return rows;
}

lm_ids lm_golden_ids(const crn_safetensors *file, const char *name) {
  const crn_safetensors_entry *e = crn_safetensors_find(file, name);
  if (!e) fail_msg("the goldens have no '%s'", name);
  lm_ids ids = {.n = crn_tensor_count(&e->tensor)};
  ids.data = need_memory(malloc((size_t)ids.n * sizeof *ids.data));
  crn_convert(e->tensor.dtype, e->tensor.data, CAIRN_SI32, ids.data, ids.n);
  return ids;
}

lm_ids lm_json_ids(const char *path, int index, const char *key) {
  json_t *root, *item;
  size_t i;
  LM_OK(crn_json_read(path, &root));
  json_t *list = json_object_get(index < 0 ? root : json_array_get(root, (size_t)index), key);
  if (!json_is_array(list)) fail_msg("%s has no list '%s'", path, key);
  lm_ids ids = {.n = (int64_t)json_array_size(list)};
  ids.data = need_memory(malloc((size_t)ids.n * sizeof *ids.data + 1));
  json_array_foreach(list, i, item) ids.data[i] = (int32_t)json_integer_value(item);
  json_decref(root);
  return ids;
}

// --- logits ---------------------------------------------------------------------------------------------------------

cairn_status lm_keep_row(void *user, int64_t position, const float *row, int64_t vocab_size) {
  lm_rows *rows = user;
  (void)position;
  if (rows->n == rows->capacity) {
    rows->capacity = rows->capacity ? 2 * rows->capacity : 16;
    rows->data = need_memory(realloc(rows->data, (size_t)(rows->capacity * vocab_size) * sizeof *rows->data));
  }
  rows->width = vocab_size;
  memcpy(rows->data + rows->n * vocab_size, row, (size_t)vocab_size * sizeof *row);
  rows->n++;
  return CAIRN_OK;
}

void lm_feed(cairn_llm *llm, const int32_t *tokens, int64_t n, int64_t piece, lm_rows *rows) {
  for (int64_t at = 0; at < n; at += piece) {
    const cairn_forward_options options = {.tokens = tokens + at,
                                           .n_tokens = (size_t)(piece < n - at ? piece : n - at),
                                           .all_rows = true,
                                           .on_logits = rows ? lm_keep_row : NULL,
                                           .user = rows};
    LM_OK(cairn_llm_forward(llm, &options));
  }
}

lm_bound lm_bound_of(cairn_dtype dtype) {
  if (dtype == CAIRN_F32) return (lm_bound){0, 1e-4, 0.9999};
  if (dtype == CAIRN_BF16) return (lm_bound){0.03, 0, 0.999};
  return (lm_bound){0.01, 0, 0.9999};
}

double lm_cosine(const float *a, const float *b, int64_t n) {
  double ab = 0, aa = 0, bb = 0;
  for (int64_t i = 0; i < n; i++) {
    ab += (double)a[i] * (double)b[i];
    aa += (double)a[i] * (double)a[i];
    bb += (double)b[i] * (double)b[i];
  }
  return ab / sqrt(aa * bb);
}

static double largest(const float *x, int64_t n) {
  double most = 0;
  for (int64_t i = 0; i < n; i++) most = fmax(most, fabs((double)x[i]));
  return most;
}

double lm_compare(const char *what, const lm_rows *got, const lm_rows *golden, const lm_bound *bound) {
  if (got->n != golden->n || got->width != golden->width) {
    fail_msg("%s: %lld rows of %lld instead of %lld of %lld", what, (long long)got->n, (long long)got->width, (long long)golden->n,
             (long long)golden->width);
  }
  double limit = fmax(bound->relative * largest(golden->data, golden->n * golden->width), bound->absolute), worst = 0;
  for (int64_t r = 0; r < golden->n; r++) {
    const float *x = got->data + r * got->width, *y = golden->data + r * golden->width;
    for (int64_t i = 0; i < golden->width; i++) {
      double d = fabs((double)x[i] - (double)y[i]);
      if (!(d <= limit))
        fail_msg("%s: row %lld, token %lld: %g instead of %g (bound %g)", what, (long long)r, (long long)i, (double)x[i], (double)y[i],
                 limit);
      worst = fmax(worst, d);
    }
    double cosine = lm_cosine(x, y, golden->width);
    if (!(cosine >= bound->cosine)) fail_msg("%s: row %lld has cosine %.6f, %.4f expected", what, (long long)r, cosine, bound->cosine);
  }
  return worst / limit;
}

int32_t lm_argmax(const float *row, int64_t n) {
  int64_t best = 0;
  for (int64_t i = 1; i < n; i++) {
    if (row[i] > row[best]) best = i;
  }
  return (int32_t)best;
}

double lm_gap(const float *row, int64_t n) {
  int32_t best = lm_argmax(row, n);
  double second = -INFINITY;
  for (int64_t i = 0; i < n; i++) {
    if (i != best) second = fmax(second, (double)row[i]);
  }
  return (double)row[best] - second;
}

void lm_greedy(cairn_llm *llm, const lm_ids *prompt, int64_t n, lm_ids *out_tokens, lm_rows *out_rows) {
  cairn_generation *g;
  cairn_generation_info info;
  lm_rows all = {0};
  const cairn_generate_options options = {.tokens = prompt->data,
                                          .n_tokens = (size_t)prompt->n,
                                          .max_tokens = n,
                                          .ignore_eos = true,
                                          .on_logits = out_rows ? lm_keep_row : NULL,
                                          .prefill_logits = out_rows != NULL,
                                          .user = &all};
  LM_OK(cairn_llm_generate(llm, &options, &g));
  cairn_generation_get(g, &info);
  assert_int_equal(info.stop_reason, CAIRN_STOP_MAX_TOKENS);
  assert_int_equal(info.n_tokens, n);
  out_tokens->n = n;
  out_tokens->data = need_memory(malloc((size_t)n * sizeof *out_tokens->data));
  memcpy(out_tokens->data, info.tokens, (size_t)n * sizeof *out_tokens->data);
  cairn_generation_destroy(g);
  if (!out_rows) return;
  // Prompt rows 0 .. n-2 predict the prompt itself.
  assert_int_equal(all.n, prompt->n + n - 1);
  memmove(all.data, all.data + (prompt->n - 1) * all.width, (size_t)(n * all.width) * sizeof *all.data);
  all.n = n;
  *out_rows = all;
}
