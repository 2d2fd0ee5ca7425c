/// Lookup in a sequence, and the account of what drafts win.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka needs the headers above in front of it.
#include <cmocka.h>
#include <string.h>

#include "engines/llm/draft.h"

static uint64_t next_random(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// --- lookup -----------------------------------------------------------------------------------------------------------

// The place behind the last occurrence before the end of the longest run of 4 to 2 tokens the sequence ends with; 0 = none.
static int64_t search(const int32_t *tokens, int64_t n) {
  for (int64_t length = CRN_NGRAM_MOST; length >= CRN_NGRAM_LEAST; length--) {
    for (int64_t place = n - 1; place >= length; place--) {
      if (n > length && memcmp(tokens + place - length, tokens + n - length, (size_t)length * sizeof *tokens) == 0) return place;
    }
  }
  return 0;
}

static void check_sequence(crn_ngram_index *x, const int32_t *tokens, int64_t n) {
  int32_t copy[CRN_DRAFT_MOST];
  const int64_t length = crn_ngram_look(x, tokens, n), expected = search(tokens, n);
  assert_int_equal(x->found, expected);
  assert_int_equal(length > 0, expected > 0);
  if (!length) return;
  for (int64_t i = 1; i <= length; i++) assert_int_equal(tokens[expected - i], tokens[n - i]);
  assert_int_equal(crn_ngram_copy(x, tokens, n, CRN_DRAFT_MOST, copy), CRN_DRAFT_MOST);
  // What lies behind the end repeats with the distance of the match.
  for (int64_t i = 0; i < CRN_DRAFT_MOST; i++)
    assert_int_equal(copy[i], expected + i < n ? tokens[expected + i] : copy[i - (n - expected)]);
}

// Every end of random sequences against a search from behind. Few tokens, so that there is much to find; many slots, so that nothing is
// lost.
static void test_lookup(void **state) {
  (void)state;
  enum { N = 300 };
  int32_t tokens[N];
  uint64_t seed = 7;
  crn_ngram_index x;
  crn_ngram_initialize(&x, crn_default_allocator());
  for (int round = 0; round < 60; round++) {
    const int64_t vocab = 2 + (int64_t)(next_random(&seed) % 12);
    for (int i = 0; i < N; i++) tokens[i] = (int32_t)(next_random(&seed) % (uint64_t)vocab) - (round % 3 == 0);
    assert_int_equal(crn_ngram_begin(&x, 1 << 17), CAIRN_OK);
    for (int64_t n = 1; n <= N; n += 1 + (int64_t)(next_random(&seed) % 3)) check_sequence(&x, tokens, n);
  }
  crn_ngram_deinitialize(&x);
}

// A sequence that is cut back and goes on in another way: what was there is not found any more.
static void test_cut(void **state) {
  (void)state;
  int32_t tokens[64], copy[4];
  crn_ngram_index x;
  crn_ngram_initialize(&x, crn_default_allocator());
  assert_int_equal(crn_ngram_begin(&x, 64), CAIRN_OK);
  for (int i = 0; i < 40; i++) tokens[i] = i;
  assert_int_equal(crn_ngram_look(&x, tokens, 40), 0);
  for (int i = 10; i < 20; i++) tokens[i] = 100 + i;
  tokens[18] = 5, tokens[19] = 6;
  assert_int_equal(crn_ngram_look(&x, tokens, 20), 2);
  assert_int_equal(x.found, 7);
  // 30, 31 was there before the cut only.
  tokens[20] = 30, tokens[21] = 31;
  assert_int_equal(crn_ngram_look(&x, tokens, 22), 0);
  tokens[22] = 5, tokens[23] = 6, tokens[24] = 30;
  assert_int_equal(crn_ngram_look(&x, tokens, 25), 3);
  assert_int_equal(x.found, 21);
  assert_int_equal(crn_ngram_copy(&x, tokens, 25, 4, copy), 4);
  assert_int_equal(copy[0], 31);
  crn_ngram_deinitialize(&x);
}

// --- the account --------------------------------------------------------------------------------------------------------

/// A model whose runs of n tokens cost 1 + slope * (n - 1), and a text of which a part of the drafts is right.
typedef struct world {
  double slope, right, noise;
  crn_draft_class class;
  double offered;  ///< how often there is a draft
} world;

static double chance(uint64_t *seed) { return (double)(next_random(seed) >> 11) * 0x1p-53; }

// The time of `n` tokens, in runs of one.
static double simulate(const world *w, crn_draft_account *a, int64_t n, uint64_t seed) {
  double time = 0;
  for (int64_t made = 0; made < n;) {
    double rate, noise = 1 + w->noise * (chance(&seed) - 0.5);
    const int64_t k = chance(&seed) < w->offered ? crn_draft_account_choose(a, w->class, CRN_DRAFT_MOST, &rate) : 0;
    const double cost = 1 + w->slope * (double)k;
    time += cost;
    made++;
    if (!k) {
      crn_draft_account_plain(a, 0.01 * cost * noise);
      continue;
    }
    crn_draft_outcome o = {.class = w->class, .n_drafted = k, .seconds = 0.01 * cost * noise, .drafting_seconds = 1e-7};
    while (o.n_accepted < k && chance(&seed) < w->right) o.n_accepted++;
    o.is_refuted = o.n_accepted < k;
    made += o.n_accepted;
    crn_draft_account_take(a, &o);
  }
  return time / (double)n;
}

// Whatever the costs and however wrong the guesses: hardly slower than without; where they are right, nearly as fast as can be.
static void test_account(void **state) {
  (void)state;
  static const double kSlopes[] = {0, 0.02, 0.1, 0.2, 0.5, 0.9, 1.5, 3}, kRight[] = {0, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 1};
  double worst = 0;
  for (size_t s = 0; s < sizeof kSlopes / sizeof *kSlopes; s++) {
    for (size_t r = 0; r < sizeof kRight / sizeof *kRight; r++) {
      for (int class = 0; class < CRN_DRAFT_CLASSES; class ++) {
        const world w = {.slope = kSlopes[s], .right = kRight[r], .noise = 0.3, .class = class, .offered = 0.7};
        crn_draft_account a;
        crn_draft_account_initialize(&a);
        const double first = simulate(&w, &a, 200, 17), time = simulate(&w, &a, 2000, 18);
        if (time > worst) worst = time;
        if (time > 1.03 || first > 1.06)
          fail_msg("slope %g, right %g, class %d: %.3f of the time, %.3f at first", w.slope, w.right, class, time, first);
        // All drafts right and cheap: 16 more tokens with 7 of 10 runs.
        if (w.right == 1 && w.slope <= 0.1 && time > 0.45) fail_msg("slope %g, class %d: only %.3f", w.slope, class, time);
      }
    }
  }
  print_message("at worst %.3f of the time without drafts\n", worst);
}

// A text that turns from copying to not copying, again and again.
static void test_account_turns(void **state) {
  (void)state;
  crn_draft_account a;
  crn_draft_account_initialize(&a);
  const world copied = {.slope = 0.2, .right = 0.97, .noise = 0.3, .class = CRN_DRAFT_LOOKUP_4, .offered = 0.9};
  world other = copied;
  other.right = 0.03;
  double fast = 0, slow = 0;
  for (uint64_t i = 0; i < 10; i++) {
    fast += simulate(&copied, &a, 300, 100 + i) / 10;
    slow += simulate(&other, &a, 300, 200 + i) / 10;
  }
  print_message("copied %.3f of the time, others %.3f\n", fast, slow);
  assert_true(fast < 0.6);
  assert_true(slow < 1.03);
}

// A run that took far too long once is no reason to stop for good.
static void test_account_forgives(void **state) {
  (void)state;
  crn_draft_account a;
  crn_draft_account_initialize(&a);
  const world w = {.slope = 0.1, .right = 0.95, .class = CRN_DRAFT_LOOKUP_8, .offered = 1};
  simulate(&w, &a, 200, 1);
  const crn_draft_outcome stalled = {.class = w.class, .n_drafted = 7, .is_refuted = true, .seconds = 5};
  crn_draft_account_take(&a, &stalled);
  assert_true(simulate(&w, &a, 600, 2) < 0.5);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_lookup), cmocka_unit_test(test_cut), cmocka_unit_test(test_account),
                                     cmocka_unit_test(test_account_turns), cmocka_unit_test(test_account_forgives)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
