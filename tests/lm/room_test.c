/// Caches with room for much more than there is: a step reads and writes the rows in use and no others, whatever the contract. The memory
/// behind these rows is made unreadable while steps run, so that what looks at it ends the test.
#include <sys/mman.h>
#include <unistd.h>

#include "engines/llm/static_shape.h"
#include "lm.h"
#include "mlx_model.h"
#include "plain_form.h"

enum { VOCAB = 61, PROMPT = 12, STEPS = 30, USED = 64, ROOM = 32768 };

static const mlx_shape kSmall = {
    .layers = 2, .width = 32, .inner = 48, .heads = 4, .groups = 2, .head_dim = 16, .vocab = VOCAB, .dtype = CAIRN_F32};

// --- memory that nobody may look at ---------------------------------------------------------------------------------------

typedef struct guard {
  size_t n_bytes;  ///< made unreadable, in all
  int mode;
} guard;

// The whole pages of [first, end) bytes.
static void set_mode(guard *g, const char *first, const char *end) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  uintptr_t from = ((uintptr_t)first + page - 1) / page * page, to = (uintptr_t)end / page * page;
  if (from >= to) return;
  assert_int_equal(mprotect((void *)from, to - from, g->mode), 0);
  g->n_bytes += to - from;
}

// Every run of rows [USED, rows) of an array whose rows lie along `axis`. Dims that move slower than the rows are walked.
static void guard_array(guard *g, cairn_ndarray *array, int axis) {
  const int64_t *dims = cairn_ndarray_shape(array), *strides = cairn_ndarray_strides(array);
  const size_t bytes = cairn_dtype_bytes(cairn_ndarray_dtype(array));
  int64_t at[CAIRN_MAX_RANK] = {0};
  const int rank = cairn_ndarray_rank(array);
  for (;;) {
    int64_t offset = 0;
    for (int d = 0; d < rank; d++) offset += at[d] * strides[d];
    const char *base = (const char *)cairn_ndarray_data(array) + (size_t)offset * bytes;
    set_mode(g, base + (size_t)(USED * strides[axis]) * bytes, base + (size_t)(dims[axis] * strides[axis]) * bytes);
    int d = rank - 1;
    while (d >= 0 && (strides[d] <= strides[axis] || ++at[d] == dims[d])) at[d--] = 0;
    if (d < 0) return;
  }
}

static size_t guard_caches(cairn_llm *llm, bool is_on) {
  guard g = {.mode = is_on ? PROT_NONE : PROT_READ | PROT_WRITE};
  for (int i = 0; i < llm->model->contract.n_states; i++) guard_array(&g, llm->states.arrays[i].array, llm->model->contract.states[i].axis);
  return g.n_bytes;
}

// --- one sequence -----------------------------------------------------------------------------------------------------------

static int64_t bytes_written(const cairn_llm *llm) {
  cairn_function_stats stats;
  int64_t bytes = 0;
  if (!llm->model->fixed) {
    cairn_function_get_stats(llm->model->function, &stats);
    return stats.state_bytes_written;
  }
  for (size_t i = 0; i < llm->model->fixed->ladder.rungs.size; i++) {
    if (!llm->graphs[i].is_ready) continue;
    cairn_function_get_stats(llm->graphs[i].function, &stats);
    assert_int_equal(stats.state_bytes_copied, 0);
    bytes += stats.state_bytes_written;
  }
  return bytes;
}

// A prompt, then tokens one by one. With `is_guarded` the unused rows are out of reach meanwhile. Returns what was written to states.
static int64_t run_sequence(cairn_llm *llm, bool is_guarded, lm_rows *rows) {
  int32_t tokens[PROMPT + STEPS];
  lm_fill(tokens, PROMPT + STEPS, 3, VOCAB);
  if (is_guarded) assert_true(guard_caches(llm, true) > 0);
  lm_feed(llm, tokens, PROMPT, PROMPT, rows);
  lm_feed(llm, tokens + PROMPT, STEPS, 1, rows);
  if (is_guarded) (void)guard_caches(llm, false);
  return bytes_written(llm);
}

static void expect_same(const lm_rows *a, const lm_rows *b) {
  assert_int_equal(a->n, b->n);
  assert_memory_equal(a->data, b->data, (size_t)(a->n * a->width) * sizeof *a->data);
}

// --- the MLX contract ---------------------------------------------------------------------------------------------------------

static int64_t run_mlx(int64_t capacity, const char *kv, bool is_guarded, lm_rows *rows) {
  cairn_context *context = lm_context(2);
  cairn_llm *llm;
  mlx_shape shape = kSmall;
  shape.capacity = capacity;
  shape.context = capacity < 0 ? ROOM : capacity;
  LM_OK(crn_llm_open_with(context, &(cairn_llm_options){.kv = kv}, mlx_open, &shape, &llm));
  const int64_t bytes = run_sequence(llm, is_guarded, rows);
  cairn_llm_close(llm);
  cairn_context_release(context);
  return bytes;
}

static void test_mlx(void **state) {
  (void)state;
  static const struct {
    int64_t capacity;
    const char *kv;
  } kCases[] = {{ROOM, NULL}, {-1, "fixed"}, {-1, "growing"}};
  lm_rows small = {0};
  const int64_t bytes = run_mlx(USED, NULL, false, &small);
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
    lm_rows rows = {0};
    assert_int_equal(run_mlx(kCases[i].capacity, kCases[i].kv, true, &rows), bytes);
    expect_same(&rows, &small);
    lm_rows_free(&rows);
  }
  lm_rows_free(&small);
}

// --- fixed shapes -------------------------------------------------------------------------------------------------------------

// `form` NULL: as the model is stored.
static int64_t run_static(const char *model, plain_form *form, bool is_guarded, lm_rows *rows) {
  cairn_context *context = lm_context(2);
  const cairn_model_options exact = {.precision = CAIRN_PRECISION_EXACT};
  const cairn_llm_options options = {.model = &exact};
  cairn_llm *llm;
  if (form) {
    LM_OK(crn_llm_open_with(context, &options, plain_form_open, form, &llm));
  } else {
    llm = lm_open(context, model, &options);
  }
  assert_string_equal(lm_engine(llm), "static-shape");
  // Rows of a position lie together.
  const cairn_ndarray *keys = llm->states.arrays[0].array;
  assert_int_equal(cairn_ndarray_strides(keys)[cairn_ndarray_rank(keys) - 1], cairn_ndarray_shape(keys)[2]);
  const int64_t bytes = run_sequence(llm, is_guarded, rows);
  cairn_llm_close(llm);
  cairn_context_release(context);
  return bytes;
}

static void test_static(void **state) {
  (void)state;
  static const char *const kModels[] = {"tiny-qwen3-ios", "tiny-qwen3_untied-ios", "tiny-mistral-ios"};
  lm_need(LM_MODELS);
  for (size_t i = 0; i < sizeof kModels / sizeof *kModels; i++) {
    lm_rows free_rows = {0}, rows = {0};
    const int64_t bytes = run_static(kModels[i], NULL, false, &free_rows);
    assert_int_equal(run_static(kModels[i], NULL, true, &rows), bytes);
    expect_same(&rows, &free_rows);
    lm_rows_free(&rows);
    // The same where the caches come and go as plain arrays.
    char path[512];
    snprintf(path, sizeof path, "%s/models/%s/%s.aimodel", CAIRN_SHARED_DATA, kModels[i], kModels[i]);
    plain_form form = {path, 0};
    rows = (lm_rows){0};
    assert_int_equal(run_static(kModels[i], &form, true, &rows), bytes);
    expect_same(&rows, &free_rows);
    lm_rows_free(&free_rows);
    lm_rows_free(&rows);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_mlx), cmocka_unit_test(test_static)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
