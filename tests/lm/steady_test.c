// A generation that has got going allocates nothing: neither its runs, nor what is between them. Lists of tokens, which double now and
// then, are all that is left.
#include <stdatomic.h>

#include "base/alloc.h"
#include "lm.h"

enum { TOKENS = 300, WARM = 100, DOUBLINGS = 4 };

typedef struct watch {
  lm_counting *counting;
  long long last;
  int n_asked, n_noisy;
} watch;

// Asked once in front of every token.
static bool look(void *user) {
  watch *w = user;
  long long n = atomic_load(&w->counting->n_allocations);
  if (w->n_asked++ >= WARM) w->n_noisy += n != w->last;
  w->last = n;
  return false;
}

static void generate_steadily(const char *model, const char *engine) {
  lm_need(LM_MODELS);
  lm_counting c;
  cairn_context *context = lm_counted_context(&c, 2);
  cairn_generation *g;
  watch w = {.counting = &c};
  const int32_t prompt[] = {3, 4, 5, 6, 7};
  cairn_llm *llm = lm_open(context, model, &(cairn_llm_options){.kv_capacity = 512, .engine = engine});
  for (int round = 0; round < 2; round++) {
    w.n_asked = w.n_noisy = 0;
    const cairn_generate_options o = {
        .tokens = prompt, .n_tokens = 5, .max_tokens = TOKENS, .ignore_eos = true, .should_cancel = look, .user = &w};
    LM_OK(cairn_llm_generate(llm, &o, &g));
    cairn_generation_destroy(g);
    print_message("%s %s: %d of %d tokens with an allocation\n", model, engine, w.n_noisy, w.n_asked - WARM);
    assert_true(w.n_asked >= TOKENS);
    assert_true(w.n_noisy <= DOUBLINGS);
  }
  cairn_llm_close(llm);
  cairn_context_release(context);
}

static void test_growing_positions(void **state) {
  (void)state;
  generate_steadily("tiny-qwen3-macos", "sequential");
}

static void test_static_shapes(void **state) {
  (void)state;
  generate_steadily("tiny-qwen3-ios", "static-shape");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_growing_positions), cmocka_unit_test(test_static_shapes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
