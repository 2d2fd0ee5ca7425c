/// Memory: what a decode step allocates, and what happens when any single allocation fails.
#include <stdatomic.h>
#include <unistd.h>

#include "base/alloc.h"
#include "lm.h"

#define MODEL "tiny-mistral-macos"
#define GROWING "tiny-qwen3-macos"
#define FIXED "tiny-qwen3_untied-ios"
#define VISION "tiny-qwen3_vl-vlm"

// --- steady state ---------------------------------------------------------------------------------------------------

enum { STEPS = 200, VIEWS = 64 };

typedef struct tally {
  long long n_quiet, n_all;
} tally;

// Feeds single tokens and counts the allocations of each step.
static tally feed_steps(cairn_llm *llm, lm_counting *c) {
  tally t = {0};
  const int32_t token = 3;
  const cairn_forward_options o = {.tokens = &token, .n_tokens = 1};
  for (int i = 0; i < STEPS; i++) {
    long long before = atomic_load(&c->n_allocations);
    LM_OK(cairn_llm_forward(llm, &o));
    long long n = atomic_load(&c->n_allocations) - before;
    t.n_quiet += n == 0;
    t.n_all += n;
  }
  return t;
}

static void check_steps(const char *model, const cairn_llm_options *options) {
  lm_counting c;
  cairn_context *context = lm_counted_context(&c, 2);
  cairn_llm *llm = lm_open(context, model, options);
  // The first time the executor's workspace grows along with the sequence.
  tally first = feed_steps(llm, &c);
  // The next page of a cache is made ready aside, whenever that thread is given its turn: the second time sees it done.
  LM_OK(cairn_llm_reset(llm, 0));
  feed_steps(llm, &c);
  LM_OK(cairn_llm_reset(llm, 0));
  long long bytes = atomic_load(&c.bytes);
  tally again = feed_steps(llm, &c);
  print_message("%s: %lld allocations in %d steps at first, then %lld, all of them in %lld steps\n", model, first.n_all, STEPS, again.n_all,
                STEPS - again.n_quiet);
  // Only the views of the positions are made anew, 64 at once; nothing piles up.
  assert_true(again.n_quiet >= STEPS - STEPS / VIEWS - 1);
  assert_true(again.n_all <= VIEWS * (STEPS / VIEWS + 1));
  assert_int_equal(atomic_load(&c.bytes), bytes);
  cairn_llm_close(llm);
  cairn_context_release(context);
  assert_int_equal(atomic_load(&c.n_live), 0);
}

static void test_steps_allocate_nothing(void **state) {
  (void)state;
  lm_need(LM_MODELS MODEL);
  check_steps(MODEL, NULL);
  check_steps(GROWING, &(cairn_llm_options){.kv_capacity = 512});
  check_steps(FIXED, NULL);
  check_steps(VISION, NULL);
}

// --- failing allocations --------------------------------------------------------------------------------------------

static cairn_status generate(cairn_llm *llm, int32_t *out_tokens) {
  static const int32_t kPrompt[] = {212, 120, 30, 86, 5, 70, 208, 330, 201};
  static const unsigned char kPicture[20 * 10 * 3] = {1, 2, 3, 200, 100, 50};
  const cairn_image image = {.rgb = kPicture, .width = 20, .height = 10};
  cairn_llm_images images;
  cairn_llm_describe_images(llm, &images);
  static const char *const kStops[] = {"no such text"};
  cairn_generation *g;
  cairn_generation_info info;
  const cairn_generate_options o = {.tokens = kPrompt,
                                    .n_tokens = 9,
                                    .images = &image,
                                    .n_images = images.image_tokens ? 1 : 0,
                                    .max_tokens = 12,
                                    .ignore_eos = true,
                                    .stop = kStops,
                                    .n_stop = 1,
                                    .sampling = {.has_repetition_penalty = true, .repetition_penalty = 1.1f}};
  cairn_status status = cairn_llm_generate(llm, &o, &g);
  if (g) cairn_generation_get(g, &info);
  if (status == CAIRN_OK) memcpy(out_tokens, info.tokens, 12 * sizeof *out_tokens);
  if (g && status != CAIRN_OK) assert_int_equal(info.stop_reason, CAIRN_STOP_ERROR);
  cairn_generation_destroy(g);
  return status;
}

// Whatever allocation of a generation fails: it says so, and the engine gives the right tokens afterwards.
static void check_generation(const char *model, const cairn_llm_options *options) {
  int32_t golden[12], tokens[12];
  lm_counting c;
  cairn_context *context = lm_counted_context(&c, 1);
  cairn_llm *llm = lm_open(context, model, options);
  LM_OK(generate(llm, golden));
  cairn_llm_close(llm);
  int n_failed = 0;
  for (long long k = 1;; k++) {
    llm = lm_open(context, model, options);  // fresh, so that the caches grow and views are made again
    atomic_store(&c.fail_at, atomic_load(&c.n_allocations) + k);
    cairn_status status = generate(llm, tokens);
    bool was_reached = atomic_load(&c.n_allocations) >= atomic_load(&c.fail_at);
    atomic_store(&c.fail_at, 0);
    if (status != CAIRN_OK) {
      lm_expect(status, CAIRN_OUT_OF_MEMORY, "");
      n_failed++;
      LM_OK(generate(llm, tokens));
    }
    assert_memory_equal(tokens, golden, sizeof golden);
    cairn_llm_close(llm);
    if (!was_reached) break;
  }
  print_message("%s: %d allocations of a generation failed one by one\n", model, n_failed);
  assert_true(n_failed > 20);
  cairn_context_release(context);
  assert_int_equal(atomic_load(&c.n_live), 0);
}

static void test_generation_out_of_memory(void **state) {
  (void)state;
  lm_need(LM_MODELS GROWING);
  check_generation(GROWING, &(cairn_llm_options){.kv_capacity = 8, .prefill_chunk = 4});
}

static void test_fixed_shapes_out_of_memory(void **state) {
  (void)state;
  lm_need(LM_MODELS FIXED);
  check_generation(FIXED, NULL);
}

static void test_images_out_of_memory(void **state) {
  (void)state;
  lm_need(LM_MODELS VISION);
  check_generation(VISION, NULL);
}

// A run that failed may have changed the states, so single steps are refused until everything is forgotten.
static void test_failed_runs_are_not_built_upon(void **state) {
  (void)state;
  lm_need(LM_MODELS MODEL);
  lm_counting c;
  cairn_context *context = lm_counted_context(&c, 1);
  const int32_t tokens[] = {5, 6, 7};
  const cairn_forward_options o = {.tokens = tokens, .n_tokens = 3};
  int n_failed_runs = 0;
  for (long long k = 1;; k++) {
    cairn_llm *llm = lm_open(context, MODEL, NULL);
    atomic_store(&c.fail_at, atomic_load(&c.n_allocations) + k);
    cairn_status status = cairn_llm_forward(llm, &o);
    atomic_store(&c.fail_at, 0);
    if (status == CAIRN_OK) {
      cairn_llm_close(llm);
      break;
    }
    lm_expect(status, CAIRN_OUT_OF_MEMORY, "");
    char message[2048];
    cairn_last_error_text(message, sizeof message);
    int64_t n;
    cairn_llm_history(llm, &n);
    assert_int_equal(n, 0);
    if (strstr(message, "running 3 tokens after 0")) {
      n_failed_runs++;
      lm_expect(cairn_llm_forward(llm, &o), CAIRN_FAILED_PRECONDITION, "a run failed before");
      LM_OK(cairn_llm_reset(llm, 0));
    }
    LM_OK(cairn_llm_forward(llm, &o));
    cairn_llm_close(llm);
  }
  assert_true(n_failed_runs > 3);
  cairn_context_release(context);
  assert_int_equal(atomic_load(&c.n_live), 0);
}

// The same for opening, at many places of it.
static void check_opening(const char *model) {
  char path[512];
  snprintf(path, sizeof path, LM_MODELS "%s", model);
  lm_need(path);
  lm_counting c;
  cairn_context *context = lm_counted_context(&c, 1);
  cairn_llm *llm;
  long long before = atomic_load(&c.n_allocations), live = atomic_load(&c.n_live);
  LM_OK(cairn_llm_open(context, path, NULL, &llm));
  cairn_llm_close(llm);
  assert_int_equal(atomic_load(&c.n_live), live);
  long long total = atomic_load(&c.n_allocations) - before, stride = total / 400 + 1;
  int n_failed = 0;
  for (long long k = 1; k <= total; k += k < 60 || k > total - 60 ? 1 : stride) {
    atomic_store(&c.fail_at, atomic_load(&c.n_allocations) + k);
    cairn_status status = cairn_llm_open(context, path, NULL, &llm);
    atomic_store(&c.fail_at, 0);
    if (status == CAIRN_OK) {
      fail_msg("allocation %lld of %lld failed and nobody noticed", k, total);
      cairn_llm_close(llm);
    } else {
      lm_expect(status, CAIRN_OUT_OF_MEMORY, "");
      assert_null(llm);
      n_failed++;
    }
    if (atomic_load(&c.n_live) != live)
      fail_msg("allocation %lld of %lld failed and %lld blocks leaked", k, total, (long long)atomic_load(&c.n_live) - live);
  }
  print_message("%s: %d of %lld allocations of an opening failed one by one\n", model, n_failed, total);
  cairn_context_release(context);
  assert_int_equal(atomic_load(&c.n_live), 0);
}

static void test_opening_out_of_memory(void **state) {
  (void)state;
  check_opening(MODEL);
  check_opening(FIXED);
  check_opening(VISION);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_steps_allocate_nothing),         cmocka_unit_test(test_generation_out_of_memory),
                                     cmocka_unit_test(test_fixed_shapes_out_of_memory),     cmocka_unit_test(test_images_out_of_memory),
                                     cmocka_unit_test(test_failed_runs_are_not_built_upon), cmocka_unit_test(test_opening_out_of_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
