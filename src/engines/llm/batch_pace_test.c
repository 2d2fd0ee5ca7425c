/// What drafts cost in a batch, and when they pay: two machines that only exist here.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka needs the headers above in front of it.
#include <cmocka.h>

#include "engines/llm/batch.h"

/// Seconds of a step: what reading the weights takes, or what the rows do, whichever is longer.
typedef struct machine {
  double read, row;
} machine;

static double step_of(const machine *m, int64_t rows) {
  const double work = m->row * (double)rows;
  return work > m->read ? work : m->read;
}

static void teach(crn_batch_pace *p, const machine *m, int n, int64_t most) {
  for (int i = 0; i < 6; i++) crn_batch_pace_runs(p, n, 0, step_of(m, n));
  for (int64_t k = 1; k <= most; k++) {
    for (int i = 0; i < 6; i++) crn_batch_pace_runs(p, n, k, step_of(m, n + k));
  }
}

// How many tokens are drafted for one member of `n`, whose guesses of this class are right as often as the class says.
static int64_t chosen(const crn_batch_pace *p, int n, crn_draft_class class) {
  crn_draft_account a;
  double more[CRN_DRAFT_MOST], rate;
  int64_t known = 0;
  crn_draft_account_initialize(&a);
  a.balance = 0;  // nothing is tried for the sake of knowing
  while (known < CRN_DRAFT_MOST && crn_batch_pace_more(p, n, known + 1) >= 0) more[known] = crn_batch_pace_more(p, n, known + 1), known++;
  crn_draft_account_tell(&a, crn_batch_pace_plain(p, n) / n, more, known);
  return crn_draft_account_choose(&a, class, CRN_DRAFT_MOST, &rate);
}

static void test_knows_nothing(void **state) {
  (void)state;
  crn_batch_pace p = {0};
  assert_true(crn_batch_pace_plain(&p, 3) == 0);
  assert_true(crn_batch_pace_more(&p, 3, 1) < 0);
  assert_int_equal(chosen(&p, 3, CRN_DRAFT_LOOKUP_16), 0);
}

// One sequence leaves arithmetic for sixteen rows; eight leave some; sixteen none.
static void test_bound_by_arithmetic(void **state) {
  (void)state;
  const machine m = {.read = 16e-3, .row = 1e-3};
  crn_batch_pace p = {0};
  for (int n = 1; n <= 16; n *= 2) teach(&p, &m, n, 16);
  assert_int_equal(chosen(&p, 1, CRN_DRAFT_LOOKUP_16), 15);
  assert_in_range(chosen(&p, 8, CRN_DRAFT_LOOKUP_16), 6, 9);
  assert_int_equal(chosen(&p, 16, CRN_DRAFT_LOOKUP_16), 0);
  assert_int_equal(chosen(&p, 16, CRN_DRAFT_FORCED), 0);
}

// What was measured with a number of sequences tells about numbers nearby; how long a step takes is known of each by itself.
static void test_between(void **state) {
  (void)state;
  const machine m = {.read = 0, .row = 2e-3};
  crn_batch_pace p = {0};
  teach(&p, &m, 4, 8);
  assert_true(crn_batch_pace_more(&p, 5, 4) > 7.9e-3 && crn_batch_pace_more(&p, 5, 4) < 8.1e-3);
  assert_true(crn_batch_pace_more(&p, 4, 5) > 9.9e-3 && crn_batch_pace_more(&p, 4, 5) < 10.1e-3);
  assert_true(crn_batch_pace_more(&p, 4, 40) < 0);
  assert_true(crn_batch_pace_plain(&p, 5) == 0);
  assert_true(crn_batch_pace_plain(&p, 4) > 7.9e-3);
  assert_true(crn_batch_pace_plain(&p, 1000) == 0);
}

// One slow step is not believed, and a step without drafts comes now and then.
static void test_noise(void **state) {
  (void)state;
  const machine m = {.read = 10e-3, .row = 1e-4};
  crn_batch_pace p = {0};
  teach(&p, &m, 2, 2);
  crn_batch_pace_runs(&p, 2, 0, 10);
  assert_true(crn_batch_pace_plain(&p, 2) < 20e-3);
  for (int i = 0; i < 63; i++) {
    assert_false(crn_batch_pace_is_due(&p));
    crn_batch_pace_runs(&p, 2, 2, 11e-3);
  }
  crn_batch_pace_runs(&p, 2, 2, 11e-3);
  assert_true(crn_batch_pace_is_due(&p));
  crn_batch_pace_runs(&p, 2, 0, 10e-3);
  assert_false(crn_batch_pace_is_due(&p));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_knows_nothing), cmocka_unit_test(test_bound_by_arithmetic),
                                     cmocka_unit_test(test_between), cmocka_unit_test(test_noise)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
