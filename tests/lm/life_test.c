/// Whose turn it is with a sequence, and models that are loaded when they are needed.
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cairn/session.h"
#include "engines/llm/internal.h"
#include "lm.h"

#define FORM CAIRN_TEST_DATA "/llm-forms/lm_dynamic"

static cairn_context *g_context;

static cairn_status generate(cairn_llm *llm, int32_t first, int64_t max_tokens, cairn_token_fn on_token, void *user, int32_t *out_tokens) {
  const int32_t tokens[] = {first, 2, 3};
  cairn_generation *g;
  cairn_generation_info info;
  const cairn_generate_options o = {
      .tokens = tokens, .n_tokens = 3, .max_tokens = max_tokens, .ignore_eos = true, .on_token = on_token, .user = user};
  CRN_TRY(cairn_llm_generate(llm, &o, &g));
  cairn_generation_get(g, &info);
  if (out_tokens) memcpy(out_tokens, info.tokens, info.n_tokens * sizeof *info.tokens);
  cairn_generation_destroy(g);
  return CAIRN_OK;
}

// --- waiting ----------------------------------------------------------------------------------------------------------

enum { N_THREADS = 6, N_ROUNDS = 8, N_TOKENS = 12 };

typedef struct caller {
  cairn_llm *llm;
  int32_t tokens[N_TOKENS];
  int n_busy;
} caller;

static void *call_often(void *user) {
  caller *c = user;
  for (int i = 0; i < N_ROUNDS; i++) {
    cairn_status status = generate(c->llm, (int32_t)(5 + (c->tokens[0] % 7)), N_TOKENS, NULL, NULL, NULL);
    c->n_busy += status == CAIRN_BUSY;
    if (status != CAIRN_OK && status != CAIRN_BUSY) fail_msg("%s", cairn_status_name(status));
  }
  return NULL;
}

static int run_callers(cairn_llm *llm) {
  pthread_t threads[N_THREADS];
  caller callers[N_THREADS] = {{0}};
  int n_busy = 0;
  for (int i = 0; i < N_THREADS; i++) {
    callers[i] = (caller){.llm = llm, .tokens = {i}};
    assert_int_equal(pthread_create(&threads[i], NULL, call_often, &callers[i]), 0);
  }
  for (int i = 0; i < N_THREADS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < N_THREADS; i++) n_busy += callers[i].n_busy;
  return n_busy;
}

static void test_wait(void **state) {
  (void)state;
  cairn_llm *llm, *fresh;
  int32_t expected[N_TOKENS], tokens[N_TOKENS];
  LM_OK(cairn_llm_open(g_context, FORM, &(cairn_llm_options){.when_busy = CAIRN_BUSY_WAIT}, &llm));
  assert_int_equal(run_callers(llm), 0);
  LM_OK(cairn_llm_open(g_context, FORM, NULL, &fresh));
  LM_OK(generate(fresh, 9, N_TOKENS, NULL, NULL, expected));
  LM_OK(generate(llm, 9, N_TOKENS, NULL, NULL, tokens));
  assert_memory_equal(tokens, expected, sizeof tokens);
  // Where nobody waits, calls at once are refused or made, and the sequence is right afterwards.
  run_callers(fresh);
  LM_OK(generate(fresh, 9, N_TOKENS, NULL, NULL, tokens));
  assert_memory_equal(tokens, expected, sizeof tokens);
  cairn_llm_close(fresh);
  cairn_llm_close(llm);
}

typedef struct slow {
  cairn_llm *llm;
  atomic_int n_tokens;
  atomic_bool has_own_call;
} slow;

static bool be_slow(void *user, const cairn_token_event *event) {
  slow *s = user;
  (void)event;
  atomic_fetch_add(&s->n_tokens, 1);
  usleep(2000);
  if (!atomic_exchange(&s->has_own_call, true)) lm_expect(cairn_llm_reset(s->llm, 0), CAIRN_BUSY, "in use by another call");
  return true;
}

static void *generate_slowly(void *user) {
  slow *s = user;
  LM_OK(generate(s->llm, 5, 40, be_slow, s, NULL));
  return NULL;
}

// A callback that calls its own sequence would wait for itself: it is refused even where callers wait.
static void test_callbacks_are_refused(void **state) {
  (void)state;
  cairn_llm *llm;
  LM_OK(cairn_llm_open(g_context, FORM, &(cairn_llm_options){.when_busy = CAIRN_BUSY_WAIT}, &llm));
  slow s = {.llm = llm};
  generate_slowly(&s);
  assert_true(atomic_load(&s.has_own_call));
  cairn_llm_close(llm);
}

// Cancelling from another thread leaves the sequence idle after the step at hand; one that waits is not cancelled.
static void test_cancel_and_wait(void **state) {
  (void)state;
  cairn_llm *llm;
  int32_t tokens[N_TOKENS];
  LM_OK(cairn_llm_open(g_context, FORM, &(cairn_llm_options){.when_busy = CAIRN_BUSY_WAIT}, &llm));
  for (int i = 0; i < 5; i++) {
    slow s = {.llm = llm, .has_own_call = true};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, generate_slowly, &s), 0);
    while (atomic_load(&s.n_tokens) < 3) usleep(500);
    cairn_llm_cancel(llm);
    const int before = atomic_load(&s.n_tokens);
    LM_OK(generate(llm, 9, N_TOKENS, NULL, NULL, tokens));
    assert_true(atomic_load(&s.n_tokens) <= before + 2);
    pthread_join(thread, NULL);
  }
  cairn_llm_close(llm);
}

// --- loading ----------------------------------------------------------------------------------------------------------

static cairn_llm_loader_counts counts_of(cairn_llm_loader *loader) {
  cairn_llm_loader_counts c;
  cairn_llm_loader_count(loader, &c);
  return c;
}

// 44: nothing is loaded before the first use. 103: eager loading fails at once. 104: unloading twice.
static void test_lazy_and_eager(void **state) {
  (void)state;
  cairn_llm_loader *loader;
  cairn_llm *llm;
  LM_OK(cairn_llm_loader_open(g_context, FORM, NULL, false, &loader));
  assert_false(counts_of(loader).is_loaded);
  assert_int_equal(counts_of(loader).n_loads, 0);
  LM_OK(cairn_llm_loader_borrow(loader, &llm));
  assert_true(counts_of(loader).is_loaded);
  assert_int_equal(counts_of(loader).n_borrowed, 1);
  cairn_llm_close(llm);
  assert_int_equal(counts_of(loader).n_borrowed, 0);
  cairn_llm_loader_unload(loader);
  cairn_llm_loader_unload(loader);
  assert_false(counts_of(loader).is_loaded);
  LM_OK(cairn_llm_loader_prewarm(loader, 4));
  assert_true(counts_of(loader).is_loaded);
  assert_int_equal(counts_of(loader).n_loads, 2);
  cairn_llm_loader_release(loader);
  lm_expect(cairn_llm_loader_open(g_context, "/nowhere/model", NULL, true, &loader), CAIRN_NOT_FOUND, "/nowhere/model");
  assert_null(loader);
  LM_OK(cairn_llm_loader_open(g_context, FORM, NULL, true, &loader));
  assert_int_equal(counts_of(loader).n_loads, 1);
  cairn_llm_loader_release(loader);
}

typedef struct borrower {
  cairn_llm_loader *loader;
  cairn_llm *llm;
  int32_t tokens[N_TOKENS];
} borrower;

static void *borrow(void *user) {
  borrower *b = user;
  LM_OK(cairn_llm_loader_borrow(b->loader, &b->llm));
  LM_OK(generate(b->llm, 9, N_TOKENS, NULL, NULL, b->tokens));
  return NULL;
}

// 45: uses at once share one load.
static void test_one_load(void **state) {
  (void)state;
  for (int round = 0; round < 5; round++) {
    pthread_t threads[N_THREADS];
    borrower borrowers[N_THREADS];
    cairn_llm_loader *loader;
    LM_OK(cairn_llm_loader_open(g_context, FORM, NULL, false, &loader));
    for (int i = 0; i < N_THREADS; i++) {
      borrowers[i].loader = loader;
      assert_int_equal(pthread_create(&threads[i], NULL, borrow, &borrowers[i]), 0);
    }
    for (int i = 0; i < N_THREADS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(counts_of(loader).n_loads, 1);
    assert_int_equal(counts_of(loader).n_borrowed, N_THREADS);
    const crn_llm_model *model = borrowers[0].llm->model;
    for (int i = 0; i < N_THREADS; i++) {
      assert_ptr_equal(borrowers[i].llm->model, model);
      assert_memory_equal(borrowers[i].tokens, borrowers[0].tokens, sizeof borrowers[0].tokens);
      cairn_llm_close(borrowers[i].llm);
    }
    cairn_llm_loader_release(loader);
  }
}

// 46: a failure is not kept.
static void test_retry(void **state) {
  (void)state;
  char folder[] = "/tmp/cairn-life-XXXXXX", path[64];
  cairn_llm_loader *loader;
  cairn_llm *llm;
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/model", folder);
  LM_OK(cairn_llm_loader_open(g_context, path, NULL, false, &loader));
  lm_expect(cairn_llm_loader_borrow(loader, &llm), CAIRN_NOT_FOUND, "model not found");
  assert_null(llm);
  assert_int_equal(symlink(FORM, path), 0);
  LM_OK(cairn_llm_loader_borrow(loader, &llm));
  assert_int_equal(counts_of(loader).n_loads, 1);
  cairn_llm_close(llm);
  cairn_llm_loader_release(loader);
  unlink(path);
  rmdir(folder);
}

// 47: what is borrowed lives on when the model is unloaded, and when the loader goes; the next use loads again.
static void test_unload_while_borrowed(void **state) {
  (void)state;
  cairn_llm_loader *loader;
  cairn_llm *llm, *other;
  int32_t a[N_TOKENS], b[N_TOKENS];
  LM_OK(cairn_llm_loader_open(g_context, FORM, NULL, false, &loader));
  LM_OK(cairn_llm_loader_borrow(loader, &llm));
  cairn_llm_loader_unload(loader);
  assert_false(counts_of(loader).is_loaded);
  LM_OK(generate(llm, 9, N_TOKENS, NULL, NULL, a));
  LM_OK(cairn_llm_loader_borrow(loader, &other));
  assert_int_equal(counts_of(loader).n_loads, 2);
  assert_ptr_not_equal(other->model, llm->model);
  cairn_llm_close(llm);
  cairn_llm_loader_release(loader);
  LM_OK(generate(other, 9, N_TOKENS, NULL, NULL, b));
  assert_memory_equal(a, b, sizeof a);
  cairn_llm_close(other);
}

// 105, 106: equal configurations are one, others are not.
static void test_configurations(void **state) {
  (void)state;
  char kv[] = "growing";
  cairn_llm_loader *a, *b, *c, *d, *e;
  const cairn_model_options exact = {.precision = CAIRN_PRECISION_EXACT};
  LM_OK(cairn_llm_loader_open(g_context, FORM, &(cairn_llm_options){.kv = kv, .model = &exact}, true, &a));
  kv[0] = 'G';  // texts were copied
  LM_OK(cairn_llm_loader_open(g_context, FORM,
                              &(cairn_llm_options){.kv = "growing", .model = &(cairn_model_options){.precision = CAIRN_PRECISION_EXACT}},
                              true, &b));
  assert_ptr_equal(a, b);
  assert_int_equal(counts_of(a).n_loads, 1);
  LM_OK(cairn_llm_loader_open(g_context, FORM, &(cairn_llm_options){.kv = "growing", .model = &exact, .allow_vocab_mismatch = true}, false,
                              &c));
  LM_OK(cairn_llm_loader_open(g_context, FORM, &(cairn_llm_options){.kv = "growing"}, false, &d));
  cairn_context *context = lm_context(1);
  LM_OK(cairn_llm_loader_open(context, FORM, &(cairn_llm_options){.kv = "growing", .model = &exact}, false, &e));
  assert_true(c != a && d != a && e != a && c != d);
  cairn_llm_loader_release(a);
  assert_true(counts_of(b).is_loaded);
  cairn_llm_loader_release(b);
  cairn_llm_loader_release(c);
  cairn_llm_loader_release(d);
  cairn_llm_loader_release(e);
  cairn_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_wait),
                                     cmocka_unit_test(test_callbacks_are_refused),
                                     cmocka_unit_test(test_cancel_and_wait),
                                     cmocka_unit_test(test_lazy_and_eager),
                                     cmocka_unit_test(test_one_load),
                                     cmocka_unit_test(test_retry),
                                     cmocka_unit_test(test_unload_while_borrowed),
                                     cmocka_unit_test(test_configurations)};
  g_context = lm_context(2);
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  cairn_context_release(g_context);
  return failed;
}
