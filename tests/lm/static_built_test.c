/// Ladders no bundle at hand has, on a small model built here: functions that were not expanded, open shapes, caches that are plain
/// inputs and outputs, a ladder that ends below the context. The model is simple enough to be computed by hand.
#include <math.h>

#include "engines/llm/static_shape.h"
#include "execute/model.h"
#include "lm.h"
#include "program/builder.h"

enum { VOCAB = 17 };

typedef struct variant {
  int64_t queries[3], contexts[3];  ///< 0 ends the list; -1 = open
  bool is_expanded;                 ///< the names tell the numbers
  bool is_plain_cache;
  bool has_prompt;
  bool lacks_gather;  ///< the last size of steps has no function that gathers embeddings
  int64_t told_context, max_context;
} variant;

// --- the model ----------------------------------------------------------------------------------------------------------

static cairn_status build_load(crn_program *p) {
  static float table[VOCAB];
  crn_builder b;
  for (int i = 0; i < VOCAB; i++) table[i] = (float)i;
  crn_builder_begin(&b, p, "load_embeddings");
  const crn_tensor t = crn_tensor_make(CAIRN_F32, (int64_t[]){VOCAB, 1, 1}, 3, table);
  crn_value *value = crn_build_constant(&b, NULL, &t, sizeof table);
  return crn_builder_finish(&b, &value, (const char *[]){"embedding_table"}, 1);
}

static cairn_status build_gather(crn_program *p, const char *name, int64_t query) {
  crn_builder b;
  crn_builder_begin(&b, p, name);
  crn_value *ids = crn_build_input(&b, "in_new_token_ids", CAIRN_SI32, (int64_t[]){1, query}, 2);
  crn_build_input(&b, "embedding_table", CAIRN_F32, (int64_t[]){VOCAB, 1, 1}, 3);
  crn_value *x = crn_build_binary(&b, CRN_OP_reshape, crn_build_cast(&b, ids, CAIRN_F32), crn_build_i32(&b, (int32_t[]){1, -1, 1, 1}, 4));
  return crn_builder_finish(&b, &x, (const char *[]){"gathered_embeddings"}, 1);
}

// cache[0,0,0,0,start:start + n] = x, for a cache [1,1,1,1,rows].
static crn_value *write_rows(crn_builder *b, crn_value *cache, crn_value *x, crn_value *start, crn_value *end) {
  crn_value *zero = crn_build_i32(b, (int32_t[]){0}, 1), *one = crn_build_i32(b, (int32_t[]){1}, 1);
  crn_value *from = crn_build_concat(b, 0, (crn_value *[]){zero, zero, zero, zero, start}, 5);
  crn_value *to = crn_build_concat(b, 0, (crn_value *[]){one, one, one, one, end}, 5);
  crn_value *ones = crn_build_i32(b, (int32_t[]){1, 1, 1, 1, 1}, 5);
  crn_value *row = crn_build_binary(b, CRN_OP_reshape, x, crn_build_i32(b, (int32_t[]){1, 1, 1, 1, -1}, 5));
  return crn_build_op(b, CRN_OP_slice_update, (crn_value *[]){cache, from, to, ones, row}, 5, CAIRN_DTYPE_NONE, 0);
}

// The sum over the rows a query may see: cache [1, rows] times exp(mask) [rows, query].
static crn_value *sum_seen(crn_builder *b, crn_value *cache, crn_value *seen) {
  crn_value *row = crn_build_binary(b, CRN_OP_reshape, cache, crn_build_i32(b, (int32_t[]){1, -1}, 2));
  return crn_build_binary(b, CRN_OP_broadcasting_batch_matmul, row, seen);
}

// logits[i, j] = sin(sum of the ids seen + 0.5 * sum of position * id + 1.7 j).
static cairn_status build_step(crn_program *p, const variant *v, const char *name, int64_t query, int64_t rows, bool is_prompt) {
  static float factors[VOCAB];
  crn_builder b;
  for (int i = 0; i < VOCAB; i++) factors[i] = 1.7f * (float)i;
  crn_builder_begin(&b, p, name);
  crn_value *x = crn_build_input(&b, "transformer_input", CAIRN_F32, (int64_t[]){1, query, 1, 1}, 4);
  crn_value *positions = crn_build_input(&b, "position_ids", CAIRN_UI16, (int64_t[]){1, query}, 2);
  crn_value *step = crn_build_input(&b, "in_step", CAIRN_SI32, (int64_t[]){1}, 1);
  crn_value *mask = crn_build_input(&b, "causal_mask", CAIRN_F32, (int64_t[]){1, rows, 1, query}, 4);
  const int64_t dims[] = {1, 1, 1, 1, rows};
  crn_value *cache[2], *old[2];
  for (int i = 0; i < 2; i++) {
    const char *cache_name = i ? "value_cache" : "key_cache";
    cache[i] =
        v->is_plain_cache ? crn_build_input(&b, cache_name, CAIRN_F32, dims, 5) : crn_build_state(&b, cache_name, CAIRN_F32, dims, 5);
    old[i] = v->is_plain_cache ? cache[i] : crn_build_read_state(&b, cache[i]);
  }
  crn_value *flat = crn_build_i32(&b, (int32_t[]){-1}, 1), *one = crn_build_i32(&b, (int32_t[]){1}, 1),
            *two = crn_build_i32(&b, (int32_t[]){2}, 1);
  crn_value *ids = crn_build_binary(&b, CRN_OP_reshape, x, flat);
  crn_value *places = crn_build_cast(&b, crn_build_binary(&b, CRN_OP_reshape, positions, flat), CAIRN_F32);
  crn_value *n = crn_build_slice(&b, crn_build_cast(&b, crn_build_unary(&b, CRN_OP_get_shape, x), CAIRN_SI32), one, two, one);
  crn_value *end = crn_build_binary(&b, CRN_OP_add, step, n);
  crn_value *fresh[3] = {write_rows(&b, old[0], ids, step, end),
                         write_rows(&b, old[1], crn_build_binary(&b, CRN_OP_mul, ids, places), step, end)};
  for (int i = 0; i < 2 && !v->is_plain_cache; i++) crn_build_write_state(&b, cache[i], fresh[i]);
  crn_value *now[2];
  for (int i = 0; i < 2; i++) now[i] = v->is_plain_cache ? fresh[i] : crn_build_read_state(&b, cache[i]);
  // The mask without its dims of 1: [rows, query].
  crn_value *shape = crn_build_cast(&b, crn_build_unary(&b, CRN_OP_get_shape, mask), CAIRN_SI32);
  crn_value *pair = crn_build_concat(&b, 0, (crn_value *[]){crn_build_slice(&b, shape, one, two, one), flat}, 2);
  crn_value *seen = crn_build_unary(&b, CRN_OP_exp, crn_build_binary(&b, CRN_OP_reshape, mask, pair));
  crn_value *sum =
      crn_build_binary(&b, CRN_OP_broadcasting_add, sum_seen(&b, now[0], seen),
                       crn_build_binary(&b, CRN_OP_broadcasting_mul, sum_seen(&b, now[1], seen), crn_build_scalar_f32(&b, 0.5f)));
  const crn_tensor f = crn_tensor_make(CAIRN_F32, (int64_t[]){VOCAB}, 1, factors);
  crn_value *column = crn_build_binary(&b, CRN_OP_reshape, sum, crn_build_i32(&b, (int32_t[]){1, 1, -1, 1}, 4));
  crn_value *angle = crn_build_binary(&b, CRN_OP_broadcasting_add, column, crn_build_constant(&b, NULL, &f, sizeof factors));
  crn_value *logits = crn_build_unary(&b, CRN_OP_sin, angle);
  if (is_prompt) logits = crn_build_binary(&b, CRN_OP_reduce_sum, logits, crn_build_i32(&b, (int32_t[]){0, 1, 2, 3}, 4));
  crn_value *results[] = {logits, fresh[0], fresh[1]};
  return crn_builder_finish(&b, results, (const char *[]){"out_logits", "new_k_cache", "new_v_cache"}, v->is_plain_cache ? 3 : 1);
}

static cairn_status build_all(crn_program *p, const variant *v) {
  char name[64];
  CRN_TRY(build_load(p));
  for (int q = 0; q < 3 && v->queries[q]; q++) {
    snprintf(name, sizeof name, v->is_expanded ? "gather_embeddings_%lld" : "gather_embeddings", (long long)v->queries[q]);
    if (!v->lacks_gather || q == 0) CRN_TRY(build_gather(p, name, v->queries[q]));
    for (int c = 0; c < 3 && v->contexts[c]; c++) {
      for (int k = 0; k < (v->has_prompt ? 2 : 1); k++) {
        const char *kind = k ? "prompt_opt" : "extend";
        snprintf(name, sizeof name, v->is_expanded ? "%s_%lld_%lld" : "%s", kind, (long long)v->contexts[c], (long long)v->queries[q]);
        CRN_TRY(build_step(p, v, name, v->queries[q], v->contexts[c], k == 1));
      }
    }
  }
  return CAIRN_OK;
}

static cairn_status open_variant(void *user, cairn_context *context, const cairn_model_options *options, crn_arena *arena,
                                 crn_llm_source *out_source) {
  const variant *v = user;
  crn_program *p;
  (void)arena;
  *out_source =
      (crn_llm_source){.kind = "aimodel", .name = "built", .context_length = v->told_context, .parts = {.bos_id = -1, .eos_id = -1}};
  CRN_TRY(crn_program_create(&context->allocator, &p));
  cairn_status status = build_all(p, v);
  if (status != CAIRN_OK) {
    crn_program_destroy(p);
    return status;
  }
  return crn_model_create_from_program(context, p, options, &out_source->model);
}

// --- the same by hand -----------------------------------------------------------------------------------------------------

typedef struct checker {
  const int32_t *tokens;
  int64_t n_rows;
} checker;

static cairn_status check_row(void *user, int64_t position, const float *row, int64_t vocab_size) {
  checker *c = user;
  double sum = 0;
  assert_int_equal(vocab_size, VOCAB);
  for (int64_t i = 0; i <= position; i++) sum += c->tokens[i] + 0.5 * (double)c->tokens[i] * (double)i;
  for (int j = 0; j < VOCAB; j++) {
    double expected = sin(sum + 1.7 * j);
    if (fabs(row[j] - expected) > 0.02)
      fail_msg("position %lld, token %d: %g instead of %g", (long long)position, j, (double)row[j], expected);
  }
  c->n_rows++;
  return CAIRN_OK;
}

static const variant kVariants[] = {
    {.queries = {8}, .contexts = {256}, .has_prompt = true, .max_context = 256},   // not expanded, fixed shapes
    {.queries = {-1}, .contexts = {-1}, .told_context = 100, .max_context = 100},  // open shapes
    {.queries = {4, 16}, .contexts = {32, 96}, .is_expanded = true, .is_plain_cache = true, .max_context = 96},
    {.queries = {4, 16}, .contexts = {32, 64}, .is_expanded = true, .has_prompt = true, .told_context = 3000, .max_context = 64},
    {.queries = {8, 64}, .contexts = {64, 128}, .is_expanded = true, .has_prompt = true, .told_context = 100, .max_context = 100},
    {.queries = {16}, .contexts = {100}, .is_expanded = true, .max_context = 96},  // the last rows are no whole block
};

static void test_variants(void **state) {
  (void)state;
  int32_t tokens[256];
  for (int i = 0; i < 256; i++) tokens[i] = (i * 7 + i * i) % 3;
  cairn_context *context = lm_context(1);
  for (size_t i = 0; i < sizeof kVariants / sizeof *kVariants; i++) {
    cairn_llm *llm;
    cairn_llm_info info;
    LM_OK(crn_llm_open_with(context, NULL, open_variant, (void *)&kVariants[i], &llm));
    cairn_llm_describe(llm, &info);
    assert_string_equal(info.engine, "static-shape");
    assert_int_equal(info.max_context, kVariants[i].max_context);
    static const int64_t kPieces[] = {1, 5, 40, 256};
    for (int k = 0; k < 4; k++) {
      for (int all = 0; all < 2; all++) {
        checker c = {.tokens = tokens};
        int64_t n = info.max_context, n_feeds = 0;
        LM_OK(cairn_llm_reset(llm, 0));
        for (int64_t at = 0; at < n; at += kPieces[k], n_feeds++) {
          const cairn_forward_options o = {.tokens = tokens + at,
                                           .n_tokens = (size_t)(kPieces[k] < n - at ? kPieces[k] : n - at),
                                           .all_rows = all == 1,
                                           .on_logits = check_row,
                                           .user = &c};
          LM_OK(cairn_llm_forward(llm, &o));
        }
        assert_int_equal(c.n_rows, all ? n : n_feeds);
      }
    }
    const cairn_forward_options more = {.tokens = tokens, .n_tokens = 1};
    lm_expect(cairn_llm_forward(llm, &more), CAIRN_CONTEXT_FULL, "");
    cairn_llm_close(llm);
  }
  cairn_context_release(context);
}

static void test_missing_gather(void **state) {
  (void)state;
  static const variant kLacks = {.queries = {4, 16}, .contexts = {32}, .is_expanded = true, .lacks_gather = true};
  const int32_t tokens[10] = {1, 2};
  cairn_context *context = lm_context(1);
  cairn_llm *llm;
  LM_OK(crn_llm_open_with(context, NULL, open_variant, (void *)&kLacks, &llm));
  const cairn_forward_options few = {.tokens = tokens, .n_tokens = 4}, many = {.tokens = tokens, .n_tokens = 10};
  LM_OK(cairn_llm_forward(llm, &few));
  lm_expect(cairn_llm_forward(llm, &many), CAIRN_UNSUPPORTED, "No gather function 'gather_embeddings_16' for batch size 16");
  LM_OK(cairn_llm_forward(llm, &few));  // nothing was changed
  cairn_llm_close(llm);
  cairn_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_variants), cmocka_unit_test(test_missing_gather)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
