#include "engines/llm/sampler.h"

#include <math.h>

#include "engines/llm/logits.h"
#include "engines/llm/test_folder.h"

enum { MAX_VOCAB = 4096 };

static cairn_context *g_context;
static char g_log[1024];

static void keep_log(void *user, cairn_log_level level, const char *line) {
  (void)user;
  (void)level;
  snprintf(g_log, sizeof g_log, "%s", line);
}

static int set_up(void **state) {
  (void)state;
  g_log[0] = 0;
  cairn_context_options options = {.n_threads = 1, .log_level = CAIRN_LOG_WARNING, .log = keep_log};
  return cairn_context_create(&options, &g_context) != CAIRN_OK;
}

static int tear_down(void **state) {
  (void)state;
  cairn_context_release(g_context);
  return 0;
}

// Draws `n` tokens from the same logits and counts them.
static void draw(const cairn_sampling *config, const float *logits, int vocab, int n, int *out_counts) {
  crn_sampler s;
  float row[MAX_VOCAB];
  test_expect(crn_sampler_initialize(&s, g_context, config, vocab), CAIRN_OK, "");
  memset(out_counts, 0, (size_t)vocab * sizeof *out_counts);
  for (int i = 0; i < n; i++) {
    memcpy(row, logits, (size_t)vocab * sizeof *row);
    int32_t token = crn_sampler_pick(&s, row);
    assert_in_range(token, 0, vocab - 1);
    out_counts[token]++;
  }
  crn_sampler_deinitialize(&s);
}

static int32_t pick_one(const cairn_sampling *config, const float *logits, int vocab) {
  int counts[MAX_VOCAB];
  draw(config, logits, vocab, 1, counts);
  for (int i = 0; i < vocab; i++) {
    if (counts[i]) return i;
  }
  return -1;
}

static int distinct(const int *counts, int vocab) {
  int n = 0;
  for (int i = 0; i < vocab; i++) n += counts[i] > 0;
  return n;
}

// --- configuration --------------------------------------------------------------------------------------------------

static void refuse(cairn_sampling c, const char *part) {
  crn_sampler s;
  test_expect(cairn_sampling_check(&c), CAIRN_INVALID_ARGUMENT, part);
  test_expect(crn_sampler_initialize(&s, g_context, &c, 8), CAIRN_INVALID_ARGUMENT, part);
}

static void test_ranges(void **state) {
  (void)state;
  refuse((cairn_sampling){.temperature = -0.1f}, "temperature");
  refuse((cairn_sampling){.temperature = NAN}, "temperature must be 0 (greedy) or a finite number above it (got nan)");
  refuse((cairn_sampling){.temperature = INFINITY}, "temperature must be 0 (greedy) or a finite number above it (got inf)");
  refuse((cairn_sampling){.has_repetition_penalty = true, .repetition_penalty = INFINITY}, "1 or more, and finite");
  refuse((cairn_sampling){.has_top_k = true}, "top_k must be positive if set");
  refuse((cairn_sampling){.has_top_k = true, .top_k = -1}, "top_k");
  refuse((cairn_sampling){.has_top_p = true}, "top_p must be in (0, 1]");
  refuse((cairn_sampling){.has_top_p = true, .top_p = 1.01f}, "top_p");
  refuse((cairn_sampling){.has_top_p = true, .top_p = NAN}, "top_p");
  refuse((cairn_sampling){.has_min_p = true}, "min_p must be in (0, 1]");
  refuse((cairn_sampling){.has_repetition_penalty = true, .repetition_penalty = 0.9f}, "repetition_penalty must be 1 or more");
  refuse((cairn_sampling){.has_repetition_window = true}, "repetition_window must be positive");
  const cairn_sampling good = {.temperature = 1,
                               .has_top_p = true,
                               .top_p = 1,
                               .has_min_p = true,
                               .min_p = 1,
                               .has_repetition_penalty = true,
                               .repetition_penalty = 1};
  test_expect(cairn_sampling_check(&good), CAIRN_OK, "");
}

static void test_top_k_1_is_greedy_with_penalty(void **state) {
  (void)state;
  crn_sampler s;
  const cairn_sampling c = {.temperature = 0.7f, .has_top_k = true, .top_k = 1, .has_repetition_penalty = true, .repetition_penalty = 1.3f};
  test_expect(crn_sampler_initialize(&s, g_context, &c, 3), CAIRN_OK, "");
  assert_true(s.is_greedy);
  assert_non_null(strstr(g_log, "greedy"));
  test_expect(crn_sampler_accept(&s, 0), CAIRN_OK, "");
  float row[] = {1.2f, 1.0f, 0};
  assert_int_equal(crn_sampler_pick(&s, row), 1);
  crn_sampler_deinitialize(&s);
}

static void test_temperature_0_drops_filters(void **state) {
  (void)state;
  const cairn_sampling c = {.has_top_k = true, .top_k = 40};
  const float logits[] = {0, 5, 4.9f};
  assert_int_equal(pick_one(&c, logits, 3), 1);
  assert_non_null(strstr(g_log, "top_k, top_p and min_p are left out"));
}

// --- penalty --------------------------------------------------------------------------------------------------------

static void penalize(cairn_sampling c, const int32_t *generated, int n, float *row, int vocab) {
  crn_sampler s;
  test_expect(crn_sampler_initialize(&s, g_context, &c, vocab), CAIRN_OK, "");
  for (int i = 0; i < n; i++) test_expect(crn_sampler_accept(&s, generated[i]), CAIRN_OK, "");
  crn_sampler_penalize(&s, row);
  crn_sampler_deinitialize(&s);
}

static void test_penalty(void **state) {
  (void)state;
  const cairn_sampling two = {.has_repetition_penalty = true, .repetition_penalty = 2};
  float a[] = {2, -2, 0};
  penalize(two, (const int32_t[]){0, 1, 2}, 3, a, 3);
  assert_true(a[0] == 1 && a[1] == -4 && a[2] == 0);
  float b[] = {2, -2, 0};  // duplicates count once, ids outside are ignored
  penalize(two, (const int32_t[]){0, 0, -1, 3, 0}, 5, b, 3);
  assert_true(b[0] == 1 && b[1] == -2);
  float c[] = {2, 2};
  cairn_sampling window = two;
  window.has_repetition_window = true;
  window.repetition_window = 1;
  penalize(window, (const int32_t[]){0, 1}, 2, c, 2);
  assert_true(c[0] == 2 && c[1] == 1);
  float d[] = {2, -2};
  penalize((cairn_sampling){.has_repetition_penalty = true, .repetition_penalty = 1}, (const int32_t[]){0, 1}, 2, d, 2);
  assert_true(d[0] == 2 && d[1] == -2);
}

static void test_penalty_shapes_the_draw(void **state) {
  (void)state;
  // Halving 4 makes both equally likely; min_p 1 keeps exactly the largest ones.
  crn_sampler s;
  const cairn_sampling c = {
      .temperature = 0.5f, .has_min_p = true, .min_p = 1, .has_repetition_penalty = true, .repetition_penalty = 2, .has_seed = true};
  int seen[2] = {0};
  test_expect(crn_sampler_initialize(&s, g_context, &c, 2), CAIRN_OK, "");
  test_expect(crn_sampler_accept(&s, 0), CAIRN_OK, "");
  for (int i = 0; i < 200; i++) {
    float row[] = {4, 2};
    seen[crn_sampler_pick(&s, row)]++;
  }
  assert_true(seen[0] > 50 && seen[1] > 50);
  crn_sampler_deinitialize(&s);
}

// --- choosing -------------------------------------------------------------------------------------------------------

static void test_greedy(void **state) {
  (void)state;
  const cairn_sampling greedy = {0};
  const float ties[] = {1, 7, 7, 3}, one[] = {-5}, nothing[] = {-INFINITY, -INFINITY}, nan[] = {NAN, 2, NAN, 3, NAN};
  assert_int_equal(pick_one(&greedy, ties, 4), 1);
  assert_int_equal(pick_one(&greedy, one, 1), 0);
  assert_int_equal(pick_one(&greedy, nothing, 2), 0);
  assert_int_equal(pick_one(&greedy, nan, 5), 3);
  const cairn_sampling warm = {.temperature = 1, .has_top_p = true, .top_p = 0.5f};
  assert_int_equal(pick_one(&warm, nothing, 2), 0);
}

static void test_impossible_tokens_are_never_drawn(void **state) {
  (void)state;
  const float logits[] = {-INFINITY, 1, -65504, NAN, 1.5f, -INFINITY, 0.5f, NAN};
  const cairn_sampling configs[] = {
      {.temperature = 1},
      {.temperature = 1, .has_top_k = true, .top_k = 6},
      {.temperature = 1, .has_top_p = true, .top_p = 0.999f},
      {.temperature = 1, .has_min_p = true, .min_p = 0.01f},
      {.temperature = 2, .has_top_k = true, .top_k = 100, .has_top_p = true, .top_p = 0.99f, .has_min_p = true, .min_p = 0.001f},
      {.temperature = 100, .has_top_k = true, .top_k = 8},
  };
  int counts[8];
  for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
    draw(&configs[i], logits, 8, 3000, counts);
    assert_int_equal(counts[0] + counts[2] + counts[3] + counts[5] + counts[7], 0);
    assert_true(counts[1] > 0 && counts[4] > 0 && counts[6] > 0);
  }
}

static void test_uniform(void **state) {
  (void)state;
  const float logits[8] = {0};
  const cairn_sampling c = {.temperature = 1, .has_seed = true, .seed = 5};
  int counts[8];
  draw(&c, logits, 8, 16000, counts);
  for (int i = 0; i < 8; i++) assert_in_range(counts[i], 1800, 2200);
}

// The frequencies follow the softmax, with filters that keep everything as well as without.
static void test_distribution(void **state) {
  (void)state;
  const float logits[] = {logf(0.5f), logf(0.3f), logf(0.15f), logf(0.05f)};
  const double p[] = {0.5, 0.3, 0.15, 0.05};
  const cairn_sampling configs[] = {{.temperature = 1, .has_seed = true},
                                    {.temperature = 1, .has_top_k = true, .top_k = 4, .has_seed = true}};
  int counts[4];
  for (int c = 0; c < 2; c++) {
    draw(&configs[c], logits, 4, 40000, counts);
    for (int i = 0; i < 4; i++) assert_true(fabs(counts[i] / 40000.0 - p[i]) < 0.01);
  }
  // Temperature 0.5 squares the ratios.
  const cairn_sampling cold = {.temperature = 0.5f, .has_seed = true};
  draw(&cold, logits, 4, 40000, counts);
  assert_true(fabs((double)counts[0] / counts[1] - 25.0 / 9.0) < 0.2);
}

static void make_logits(float *logits, int n, uint64_t seed) {
  crn_rng rng;
  crn_rng_seed(&rng, seed);
  for (int i = 0; i < n; i++) logits[i] = (float)(crn_rng_uniform(&rng) * 20 - 10);
}

static void test_top_k(void **state) {
  (void)state;
  float logits[1000];
  make_logits(logits, 1000, 1);
  for (int k = 1; k <= 50; k += 7) {
    const cairn_sampling c = {.temperature = 3, .has_top_k = true, .top_k = k, .has_seed = true, .seed = 9};
    int counts[1000];
    draw(&c, logits, 1000, 4000, counts);
    assert_true(distinct(counts, 1000) <= k);
    for (int i = 0; i < 1000; i++) {  // whoever was drawn has fewer than k before it
      int before = 0;
      for (int j = 0; counts[i] && j < 1000; j++) before += logits[j] > logits[i];
      assert_true(before < k);
    }
  }
  // On ties the lower ids are kept.
  const float ties[] = {1, 1, 1, 1, 1};
  const cairn_sampling two = {.temperature = 1, .has_top_k = true, .top_k = 2, .has_seed = true};
  int counts[5];
  draw(&two, ties, 5, 200, counts);
  assert_true(counts[0] > 0 && counts[1] > 0);
  assert_int_equal(counts[2] + counts[3] + counts[4], 0);
}

static void test_top_p(void **state) {
  (void)state;
  const float logits[] = {logf(0.1f), logf(0.5f), logf(0.05f), logf(0.3f), logf(0.05f)};
  int counts[5];
  const cairn_sampling c = {.temperature = 1, .has_top_p = true, .top_p = 0.75f, .has_seed = true};
  draw(&c, logits, 5, 2000, counts);
  assert_int_equal(distinct(counts, 5), 2);
  assert_true(counts[1] > 0 && counts[3] > 0);
  const cairn_sampling tiny = {.temperature = 1, .has_top_p = true, .top_p = 0.0001f, .has_seed = true};
  draw(&tiny, logits, 5, 200, counts);
  assert_int_equal(counts[1], 200);
  const cairn_sampling both = {.temperature = 1, .has_top_k = true, .top_k = 2, .has_top_p = true, .top_p = 0.99f, .has_seed = true};
  draw(&both, logits, 5, 2000, counts);
  assert_int_equal(distinct(counts, 5), 2);
}

// The set of top_p found by popping a heap is the one a full sort gives, over many random rows.
static void test_top_p_equals_sorting(void **state) {
  (void)state;
  enum { N = 300 };
  for (uint64_t seed = 0; seed < 30; seed++) {
    float logits[N];
    make_logits(logits, N, seed);
    float top_p = 0.05f + 0.03f * (float)seed;
    int counts[N];
    const cairn_sampling c = {.temperature = 1, .has_top_p = true, .top_p = top_p, .has_seed = true, .seed = seed};
    draw(&c, logits, N, 500, counts);
    double total = 0;
    for (int i = 0; i < N; i++) total += exp((double)logits[i]);
    for (int i = 0; i < N; i++) {
      double before = 0;
      for (int j = 0; j < N; j++) before += logits[j] > logits[i] ? exp((double)logits[j]) : 0;
      if (counts[i]) assert_true(before < (double)top_p * total * 1.0001);
    }
  }
}

static void test_min_p(void **state) {
  (void)state;
  const float logits[] = {logf(0.5f), logf(0.3f), logf(0.1f), logf(0.1f)};
  int counts[4];
  const cairn_sampling c = {.temperature = 1, .has_min_p = true, .min_p = 0.3f, .has_seed = true};
  draw(&c, logits, 4, 2000, counts);
  assert_int_equal(counts[2] + counts[3], 0);
  assert_true(fabs(counts[0] / 2000.0 - 0.625) < 0.04);
  const cairn_sampling then_top_p = {
      .temperature = 1, .has_min_p = true, .min_p = 0.3f, .has_top_p = true, .top_p = 0.6f, .has_seed = true};
  draw(&then_top_p, logits, 4, 500, counts);
  assert_int_equal(counts[0], 500);
  const cairn_sampling most = {.temperature = 1, .has_min_p = true, .min_p = 1, .has_seed = true};
  draw(&most, logits, 4, 500, counts);
  assert_int_equal(counts[0], 500);
}

static void test_extremes(void **state) {
  (void)state;
  int counts[MAX_VOCAB];
  const float allowed[] = {-INFINITY, -INFINITY, -3, -INFINITY};
  const cairn_sampling warm = {.temperature = 1, .has_seed = true};
  draw(&warm, allowed, 4, 100, counts);
  assert_int_equal(counts[2], 100);
  float tall[100] = {0};
  tall[42] = 50;
  draw(&warm, tall, 100, 1000, counts);
  assert_true(counts[42] > 990);
  const float near[] = {1, 1.2f, 0.9f};
  const cairn_sampling cold = {.temperature = 0.01f, .has_seed = true}, colder = {.temperature = 1e-40f, .has_seed = true};
  draw(&cold, near, 3, 1000, counts);
  assert_int_equal(counts[1], 1000);
  draw(&colder, near, 3, 100, counts);
  assert_int_equal(counts[1], 100);
  const float infinite[] = {1, INFINITY, 3, INFINITY};
  const cairn_sampling filtered = {.temperature = 1, .has_top_k = true, .top_k = 3, .has_seed = true};
  draw(&warm, infinite, 4, 200, counts);
  assert_int_equal(counts[0] + counts[2], 0);
  draw(&filtered, infinite, 4, 200, counts);
  assert_int_equal(counts[0] + counts[2], 0);
  assert_true(counts[1] > 0 && counts[3] > 0);
}

static void test_seeds(void **state) {
  (void)state;
  float logits[1000];
  make_logits(logits, 1000, 3);
  crn_sampler a, b, c;
  cairn_sampling config = {.temperature = 2, .has_top_p = true, .top_p = 0.95f, .has_seed = true, .seed = 7};
  test_expect(crn_sampler_initialize(&a, g_context, &config, 1000), CAIRN_OK, "");
  test_expect(crn_sampler_initialize(&b, g_context, &config, 1000), CAIRN_OK, "");
  config.seed = 8;
  test_expect(crn_sampler_initialize(&c, g_context, &config, 1000), CAIRN_OK, "");
  int n_different = 0;
  for (int i = 0; i < 100; i++) {
    float x[1000], y[1000], z[1000];
    memcpy(x, logits, sizeof x);
    memcpy(y, logits, sizeof y);
    memcpy(z, logits, sizeof z);
    int32_t from_a = crn_sampler_pick(&a, x);
    assert_int_equal(from_a, crn_sampler_pick(&b, y));
    n_different += from_a != crn_sampler_pick(&c, z);
  }
  assert_true(n_different > 50);
  crn_sampler_deinitialize(&a);
  crn_sampler_deinitialize(&b);
  crn_sampler_deinitialize(&c);
  // The published first outputs of splitmix64(0) make the state, so the generator is the published one.
  crn_rng rng;
  crn_rng_seed(&rng, 0);
  assert_true(rng.s[0] == 0xe220a8397b1dcdafu && rng.s[1] == 0x6e789e6aa1b965f4u);
  assert_true(crn_rng_next(&rng) == 0x99ec5f36cb75f2b4u);
}

// --- rows -----------------------------------------------------------------------------------------------------------

static void test_widen(void **state) {
  (void)state;
  // Every f16: exact by construction from sign, exponent and fraction.
  static uint16_t half[65536];
  static float wide[65536];
  for (int i = 0; i < 65536; i++) half[i] = (uint16_t)i;
  crn_logits_widen(NULL, CAIRN_F16, half, wide, 65536);
  for (int i = 0; i < 65536; i++) {
    int e = i >> 10 & 31, m = i & 1023;
    float expected = e == 31 ? (m ? NAN : INFINITY) : e ? ldexpf(1024 + (float)m, e - 25) : ldexpf((float)m, -24);
    if (i & 0x8000) expected = -expected;
    assert_true(isnan(expected) ? isnan(wide[i]) : expected == wide[i] && signbit(expected) == signbit(wide[i]));
  }
  const uint16_t brain[] = {0x3f80, 0xc040, 0xff80};
  crn_logits_widen(NULL, CAIRN_BF16, brain, wide, 3);
  assert_true(wide[0] == 1 && wide[1] == -3 && wide[2] == -INFINITY);
  const float plain[] = {1.5f, -2};
  crn_logits_widen(NULL, CAIRN_F32, plain, wide, 2);
  assert_true(wide[0] == 1.5f && wide[1] == -2);
}

// The first of the largest, for rows of all lengths around vectors and pieces, with ties, NaN and infinities among them.
static void test_argmax(void **state) {
  (void)state;
  static const int64_t lengths[] = {1, 2, 31, 32, 33, 63, 65, 2047, 2048, 2049, 5000};
  static float row[5000];
  crn_rng rng;
  crn_rng_seed(&rng, 3);
  for (int trial = 0; trial < 330; trial++) {
    int64_t n = lengths[trial % 11], at = 0;
    float best = -INFINITY, found;
    int kinds = trial / 11 % 3 == 0 ? 4 : 1000;
    for (int64_t i = 0; i < n; i++) {
      row[i] = (float)(int)(crn_rng_uniform(&rng) * kinds) - 5000;
      if (crn_rng_uniform(&rng) < 0.01) row[i] = crn_rng_uniform(&rng) < 0.5 ? NAN : -INFINITY;
    }
    if (trial % 30 == 29) {
      for (int64_t i = 0; i < n; i++) row[i] = i % 2 ? NAN : -INFINITY;
    }
    for (int64_t i = 0; i < n; i++) {
      if (row[i] > best) best = row[i], at = i;
    }
    assert_int_equal(crn_logits_argmax(row, n, &found), at);
    assert_true(found == best);
    assert_int_equal(crn_logits_argmax__plain(row, n, &found), at);
    assert_true(found == best);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
      TEST(test_ranges),
      TEST(test_top_k_1_is_greedy_with_penalty),
      TEST(test_temperature_0_drops_filters),
      TEST(test_penalty),
      TEST(test_penalty_shapes_the_draw),
      TEST(test_greedy),
      TEST(test_impossible_tokens_are_never_drawn),
      TEST(test_uniform),
      TEST(test_distribution),
      TEST(test_top_k),
      TEST(test_top_p),
      TEST(test_top_p_equals_sorting),
      TEST(test_min_p),
      TEST(test_argmax),
      TEST(test_extremes),
      TEST(test_seeds),
      TEST(test_widen),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
