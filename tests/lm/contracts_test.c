/// Contracts no bundle at hand has, on a small model built here: one token a run, the position of the token alone, four
/// states, a running state, logits of the last token only. The model is simple enough to be computed by hand.
#include <math.h>

#include "engines/llm/internal.h"
#include "execute/model.h"
#include "lm.h"
#include "program/builder.h"

enum { VOCAB = 17, LIMIT = 300 };

typedef struct variant {
  bool one_token, current_position, last_row_only;
  bool has_running_state;  ///< four states: two caches, a third growing one, and one that is a running summary
  bool breaks_at_16;       ///< token 16 makes the logits NaN
  bool is_stateless;       ///< no caches: the function takes the whole sequence every time
} variant;

// --- the model ------------------------------------------------------------------------------------------------------

// cache[row:row + n] = x, for a cache [1,1,1,?,1] and x [n].
static void write_rows(crn_builder *b, crn_value *cache, crn_value *x, crn_value *row, crn_value *end) {
  crn_value *zero = crn_build_i32(b, (int32_t[]){0}, 1), *one = crn_build_i32(b, (int32_t[]){1}, 1);
  crn_value *start_at = crn_build_concat(b, 0, (crn_value *[]){zero, zero, zero, row, zero}, 5);
  crn_value *end_at = crn_build_concat(b, 0, (crn_value *[]){one, one, one, end, one}, 5);
  crn_value *ones = crn_build_i32(b, (int32_t[]){1, 1, 1, 1, 1}, 5);
  crn_value *column = crn_build_binary(b, CRN_OP_reshape, x, crn_build_i32(b, (int32_t[]){1, 1, 1, -1, 1}, 5));
  crn_value *old = crn_build_read_state(b, cache);
  crn_build_write_state(b, cache,
                        crn_build_op(b, CRN_OP_slice_update, (crn_value *[]){old, start_at, end_at, ones, column}, 5, CAIRN_DTYPE_NONE, 0));
}

// Sum of the first `end` rows, as [1].
static crn_value *sum_rows(crn_builder *b, crn_value *cache, crn_value *end) {
  crn_value *zero = crn_build_i32(b, (int32_t[]){0, 0, 0, 0, 0}, 5), *ones = crn_build_i32(b, (int32_t[]){1, 1, 1, 1, 1}, 5);
  crn_value *one = crn_build_i32(b, (int32_t[]){1}, 1);
  crn_value *rows =
      crn_build_slice(b, crn_build_read_state(b, cache), zero, crn_build_concat(b, 0, (crn_value *[]){one, one, one, end, one}, 5), ones);
  crn_value *flat = crn_build_binary(b, CRN_OP_reshape, rows, crn_build_i32(b, (int32_t[]){-1}, 1));
  return crn_build_binary(b, CRN_OP_reduce_sum, flat, crn_build_i32(b, (int32_t[]){0}, 1));
}

// logits[j] = sin(sum(ids so far) + 0.5 * sum(position * id) + 1.7 j [+ running]), running = running / 2 + id.
static cairn_status build(cairn_context *context, const variant *v, crn_program **out) {
  static const float kFactors[VOCAB] = {0,        1.7f,      2 * 1.7f,  3 * 1.7f,  4 * 1.7f,  5 * 1.7f,  6 * 1.7f,  7 * 1.7f, 8 * 1.7f,
                                        9 * 1.7f, 10 * 1.7f, 11 * 1.7f, 12 * 1.7f, 13 * 1.7f, 14 * 1.7f, 15 * 1.7f, 16 * 1.7f};
  crn_program *p;
  crn_builder b;
  CRN_TRY(crn_program_create(&context->allocator, &p));
  crn_builder_begin(&b, p, "main");
  crn_value *ids = crn_build_input(&b, "input_ids", CAIRN_SI32, (int64_t[]){1, v->one_token ? 1 : -1}, 2);
  crn_value *positions = crn_build_input(&b, "position_ids", CAIRN_SI32, (int64_t[]){1, v->current_position ? 1 : -1}, 2);
  const int64_t cache_dims[] = {1, 1, 1, -1, 1};
  crn_value *k = v->is_stateless ? NULL : crn_build_state(&b, "keyCache", CAIRN_F32, cache_dims, 5),
            *w = v->is_stateless ? NULL : crn_build_state(&b, "valueCache", CAIRN_F32, cache_dims, 5);
  crn_value *scale = v->has_running_state ? crn_build_state(&b, "k_scale", CAIRN_F32, cache_dims, 5) : NULL;
  crn_value *running = v->has_running_state ? crn_build_state(&b, "recState", CAIRN_F32, (int64_t[]){1, 1}, 2) : NULL;
  crn_value *one = crn_build_i32(&b, (int32_t[]){1}, 1), *two = crn_build_i32(&b, (int32_t[]){2}, 1),
            *minus_1 = crn_build_i32(&b, (int32_t[]){-1}, 1);
  crn_value *flat_ids = crn_build_binary(&b, CRN_OP_reshape, ids, minus_1),
            *flat = crn_build_binary(&b, CRN_OP_reshape, positions, minus_1);
  crn_value *x = crn_build_cast(&b, flat_ids, CAIRN_F32);
  crn_value *n = crn_build_slice(&b, crn_build_cast(&b, crn_build_unary(&b, CRN_OP_get_shape, ids), CAIRN_SI32), one, two, one);
  crn_value *length = crn_build_slice(&b, crn_build_cast(&b, crn_build_unary(&b, CRN_OP_get_shape, positions), CAIRN_SI32), one, two, one);
  crn_value *end = v->current_position ? crn_build_binary(&b, CRN_OP_add, flat, one) : length;
  crn_value *row = crn_build_binary(&b, CRN_OP_sub, end, n);
  // The last n positions: all of them when only one is given.
  crn_value *mine = v->current_position ? flat : crn_build_slice(&b, flat, row, end, one);
  crn_value *weighted = crn_build_binary(&b, CRN_OP_mul, x, crn_build_cast(&b, mine, CAIRN_F32));
  if (!v->is_stateless) {
    write_rows(&b, k, x, row, end);
    write_rows(&b, w, weighted, row, end);
  }
  crn_value *half = crn_build_scalar_f32(&b, 0.5f), *dim_0 = crn_build_i32(&b, (int32_t[]){0}, 1);
  crn_value *sum_k = v->is_stateless ? crn_build_binary(&b, CRN_OP_reduce_sum, x, dim_0) : sum_rows(&b, k, end);
  crn_value *sum_w = v->is_stateless ? crn_build_binary(&b, CRN_OP_reduce_sum, weighted, dim_0) : sum_rows(&b, w, end);
  crn_value *sum = crn_build_binary(&b, CRN_OP_broadcasting_add, sum_k, crn_build_binary(&b, CRN_OP_broadcasting_mul, sum_w, half));
  if (v->has_running_state) {
    write_rows(&b, scale, x, row, end);
    crn_value *old = crn_build_binary(&b, CRN_OP_broadcasting_mul, crn_build_read_state(&b, running), half);
    crn_value *fresh = crn_build_binary(&b, CRN_OP_broadcasting_add, old, x);
    crn_build_write_state(&b, running, crn_build_binary(&b, CRN_OP_reshape, fresh, crn_build_i32(&b, (int32_t[]){1, 1}, 2)));
    sum = crn_build_binary(&b, CRN_OP_broadcasting_add, sum, crn_build_binary(&b, CRN_OP_reshape, fresh, one));
  }
  if (v->breaks_at_16) {  // 0 / (16 - id)
    crn_value *distance = crn_build_binary(&b, CRN_OP_broadcasting_sub, crn_build_scalar_f32(&b, 16), x);
    sum = crn_build_binary(&b, CRN_OP_broadcasting_add, sum,
                           crn_build_binary(&b, CRN_OP_broadcasting_divide, crn_build_scalar_f32(&b, 0), distance));
  }
  const crn_tensor factors = crn_tensor_make(CAIRN_F32, (int64_t[]){VOCAB}, 1, (void *)kFactors);
  crn_value *angle = crn_build_binary(&b, CRN_OP_broadcasting_add, crn_build_constant(&b, NULL, &factors, sizeof kFactors), sum);
  crn_value *logits =
      crn_build_binary(&b, CRN_OP_reshape, crn_build_unary(&b, CRN_OP_sin, angle), crn_build_i32(&b, (int32_t[]){1, 1, VOCAB}, 3));
  cairn_status status = crn_builder_finish(&b, &logits, (const char *[]){"logits"}, 1);
  if (status != CAIRN_OK) {
    crn_program_destroy(p);
    return status;
  }
  *out = p;
  return CAIRN_OK;
}

static cairn_status open_variant(void *user, cairn_context *context, const cairn_model_options *options, crn_arena *arena,
                                 crn_llm_source *out_source) {
  crn_program *program;
  (void)arena;
  *out_source = (crn_llm_source){.kind = "aimodel", .name = "built", .context_length = LIMIT, .parts = {.bos_id = -1, .eos_id = -1}};
  CRN_TRY(build(context, user, &program));
  return crn_model_create_from_program(context, program, options, &out_source->model);
}

static cairn_llm *open_built(cairn_context *context, const variant *v, const cairn_llm_options *options) {
  cairn_llm *llm;
  LM_OK(crn_llm_open_with(context, options, open_variant, (void *)v, &llm));
  return llm;
}

// --- the same by hand -----------------------------------------------------------------------------------------------

static void compute(const variant *v, const int32_t *tokens, int64_t n, float *row) {
  double sum = 0, weighted = 0, running = 0;
  for (int64_t i = 0; i < n; i++) {
    sum += tokens[i];
    weighted += (double)tokens[i] * (double)i;
    running = running / 2 + tokens[i];
  }
  for (int j = 0; j < VOCAB; j++) row[j] = (float)sin(sum + 0.5 * weighted + 1.7 * j + (v->has_running_state ? running : 0));
}

typedef struct checker {
  const variant *v;
  const int32_t *tokens;
  int64_t n_rows;
} checker;

static cairn_status check_row(void *user, int64_t position, const float *row, int64_t vocab_size) {
  checker *c = user;
  float golden[VOCAB];
  assert_int_equal(vocab_size, VOCAB);
  compute(c->v, c->tokens, position + 1, golden);
  for (int j = 0; j < VOCAB; j++) {
    if (fabsf(row[j] - golden[j]) > 2e-3f)
      fail_msg("position %lld, token %d: %g instead of %g", (long long)position, j, (double)row[j], (double)golden[j]);
  }
  c->n_rows++;
  return CAIRN_OK;
}

static void feed(cairn_llm *llm, checker *c, int64_t from, int64_t n) {
  const cairn_forward_options o = {.tokens = c->tokens + from, .n_tokens = (size_t)n, .on_logits = check_row, .user = c};
  LM_OK(cairn_llm_forward(llm, &o));
}

// --- tests ----------------------------------------------------------------------------------------------------------

static const variant kVariants[] = {
    {.last_row_only = true},
    {.one_token = true},
    {.one_token = true, .current_position = true},
    {.one_token = true, .has_running_state = true},
    {.one_token = true, .current_position = true, .has_running_state = true},
    {.last_row_only = true, .is_stateless = true},
};
enum { N_VARIANTS = sizeof kVariants / sizeof *kVariants };

static void fill(int32_t *tokens, int n) {
  for (int i = 0; i < n; i++) tokens[i] = (i * 7 + i * i) % VOCAB;
}

static void test_rows(void **state) {
  (void)state;
  int32_t tokens[60];
  fill(tokens, 60);
  cairn_context *context = lm_context(1);
  for (int i = 0; i < N_VARIANTS; i++) {
    const variant *v = &kVariants[i];
    checker c = {.v = v, .tokens = tokens};
    cairn_llm *llm = open_built(context, v, &(cairn_llm_options){.kv_capacity = 4});
    cairn_llm_info info;
    cairn_llm_describe(llm, &info);
    assert_int_equal(info.hybrid, v->has_running_state);
    assert_int_equal(info.prefill_chunk, v->one_token ? 1 : 512);
    feed(llm, &c, 0, 9);
    feed(llm, &c, 9, 1);
    feed(llm, &c, 10, 50);
    assert_int_equal(c.n_rows, 3);
    // All rows: one a token when the model takes one, else it must say no.
    LM_OK(cairn_llm_reset(llm, 0));
    const cairn_forward_options all = {.tokens = tokens, .n_tokens = 20, .all_rows = true, .on_logits = check_row, .user = &c};
    if (v->last_row_only) {
      lm_expect(cairn_llm_forward(llm, &all), CAIRN_UNSUPPORTED, "logits of the last token only");
    } else {
      LM_OK(cairn_llm_forward(llm, &all));
      assert_int_equal(c.n_rows, 23);
    }
    cairn_llm_close(llm);
  }
  cairn_context_release(context);
}

// Greedy generation follows the formula, also on later turns.
static void check_turn(cairn_llm *llm, const variant *v, const int32_t *prompt, int64_t n, int64_t expected_hit) {
  enum { MORE = 12 };
  int32_t all[128];
  float row[VOCAB];
  cairn_generation *g;
  cairn_generation_info info;
  const cairn_generate_options o = {.tokens = prompt, .n_tokens = (size_t)n, .max_tokens = MORE};
  LM_OK(cairn_llm_generate(llm, &o, &g));
  cairn_generation_get(g, &info);
  assert_int_equal(info.n_tokens, MORE);
  assert_int_equal(info.prefix_hit, expected_hit);
  memcpy(all, prompt, (size_t)n * sizeof *all);
  for (int64_t i = 0; i < MORE; i++) {
    compute(v, all, n + i, row);
    int32_t token = info.tokens[i];
    // Of the largest values, which are close to each other now and then, any will do.
    assert_true(row[lm_argmax(row, VOCAB)] - row[token] < 4e-3f);
    all[n + i] = token;
  }
  cairn_generation_destroy(g);
}

static void test_turns(void **state) {
  (void)state;
  int32_t tokens[60];
  fill(tokens, 60);
  cairn_context *context = lm_context(1);
  for (int i = 0; i < N_VARIANTS; i++) {
    const variant *v = &kVariants[i];
    cairn_llm *llm = open_built(context, v, NULL);
    check_turn(llm, v, tokens, 20, 0);
    // Held: 20 of the prompt and 11 generated. A prompt of 25 shares 20 with it: a running state goes back to its
    // snapshot, which was made one token before the end of the first prompt.
    tokens[20] = 3;
    tokens[21] = 16;
    const int32_t *held;
    int64_t n_held;
    held = cairn_llm_history(llm, &n_held);
    int64_t common = 0;
    while (common < 25 && common < n_held && held[common] == tokens[common]) common++;
    check_turn(llm, v, tokens, 25, v->has_running_state ? 19 : common < 24 ? common : 24);
    // A prompt that goes on where the state is: everything is reused in every contract.
    int32_t longer[64];
    held = cairn_llm_history(llm, &n_held);
    memcpy(longer, held, (size_t)n_held * sizeof *longer);
    longer[n_held] = 5;
    longer[n_held + 1] = 6;
    check_turn(llm, v, longer, n_held + 2, n_held);
    cairn_llm_close(llm);
  }
  cairn_context_release(context);
}

// Logits no token can be chosen by are an error that says where, and the engine stays usable.
static void test_nan_logits(void **state) {
  (void)state;
  static const variant kBreaks = {.one_token = true, .breaks_at_16 = true};
  const int32_t tokens[] = {1, 2, 16}, fine[] = {1, 2, 3};
  cairn_context *context = lm_context(1);
  cairn_llm *llm = open_built(context, &kBreaks, NULL);
  cairn_generation *g;
  cairn_generation_info info;
  const cairn_generate_options o = {.tokens = tokens, .n_tokens = 3, .max_tokens = 3};
  lm_expect(cairn_llm_generate(llm, &o, &g), CAIRN_INTERNAL, "the logits after token 2 hold no number to choose by");
  assert_non_null(g);
  cairn_generation_get(g, &info);
  assert_int_equal(info.stop_reason, CAIRN_STOP_ERROR);
  assert_int_equal(info.n_tokens, 0);
  assert_int_equal(info.prefill_tokens, 3);
  cairn_generation_destroy(g);
  checker c = {.v = &kBreaks, .tokens = fine};
  LM_OK(cairn_llm_reset(llm, 2));
  feed(llm, &c, 2, 1);
  assert_int_equal(c.n_rows, 1);
  cairn_llm_close(llm);
  cairn_context_release(context);
}

// A callback that fails ends the call with its status, and what was fed stays known.
static cairn_status refuse_row(void *user, int64_t position, const float *row, int64_t vocab_size) {
  (void)user;
  (void)row;
  (void)vocab_size;
  return position == 4 ? CRN_FAIL(IO, "the disk is full") : CAIRN_OK;
}

static void test_failing_consumer(void **state) {
  (void)state;
  int32_t tokens[8];
  fill(tokens, 8);
  cairn_context *context = lm_context(1);
  cairn_llm *llm = open_built(context, &kVariants[1], NULL);
  cairn_generation *g;
  const cairn_generate_options o = {.tokens = tokens, .n_tokens = 8, .max_tokens = 3, .prefill_logits = true, .on_logits = refuse_row};
  lm_expect(cairn_llm_generate(llm, &o, &g), CAIRN_IO, "the disk is full");
  assert_non_null(g);
  cairn_generation_destroy(g);
  int64_t n;
  cairn_llm_history(llm, &n);
  assert_int_equal(n, 5);
  check_turn(llm, &kVariants[1], tokens, 8, 5);
  cairn_llm_close(llm);
  cairn_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_turns), cmocka_unit_test(test_nan_logits),
                                     cmocka_unit_test(test_failing_consumer)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
