// Names, shapes and the choice of a rung.
#include "engines/llm/ladder.h"

#include "engines/llm/test_folder.h"

enum { MAX_FUNCTIONS = 64 };

static cairn_function_info g_infos[MAX_FUNCTIONS];
static char g_names[MAX_FUNCTIONS][40];
static const cairn_function_info *g_list[MAX_FUNCTIONS];
static int g_n;

static void add(const char *name) {
  snprintf(g_names[g_n], sizeof *g_names, "%s", name);
  g_infos[g_n] = (cairn_function_info){.name = g_names[g_n]};
  g_list[g_n] = &g_infos[g_n];
  g_n++;
}

// The ladder of the public exporter for the contexts 256 to 4096, with functions that are no rungs.
static void standard(const char *const *kinds) {
  char name[40];
  g_n = 0;
  add("load_embeddings");
  add("gather_embeddings_8");
  add("extended_256_8");
  add("rope_gather_extend");
  for (; *kinds; kinds++) {
    for (int context = 256; context <= 4096; context *= 2) {
      for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s_%d_%d", *kinds, context, (int[]){64, 8, 16}[i]);
        add(name);
      }
    }
  }
}

static const char *const kBoth[] = {"extend", "prompt_opt", NULL}, *const kExtend[] = {"extend", NULL};

static void expect(const crn_ladder *l, int64_t remaining, int64_t position, bool needs_logits, const char *name) {
  const crn_ladder_rung *r = crn_ladder_select(l, remaining, position, needs_logits);
  if (!name) {
    assert_null(r);
    return;
  }
  assert_non_null(r);
  assert_string_equal(r->function, name);
}

static void test_table(void **state) {
  (void)state;
  crn_ladder l;
  standard(kBoth);
  test_expect(crn_ladder_read(crn_default_allocator(), g_list, g_n, 4096, &l), CAIRN_OK, "");
  assert_int_equal(l.max_query, 64);
  assert_int_equal(l.max_context, 4096);
  assert_int_equal(l.rungs.size, 30);
  expect(&l, 1, 0, true, "extend_256_8");
  expect(&l, 1, 255, true, "extend_256_8");
  expect(&l, 1, 256, true, "extend_512_8");
  expect(&l, 9, 0, true, "extend_256_16");
  expect(&l, 64, 0, false, "extend_256_64");
  expect(&l, 128, 0, true, "extend_256_64");
  expect(&l, 128, 0, false, "prompt_opt_256_64");
  expect(&l, 65, 192, false, "prompt_opt_256_64");
  expect(&l, 65, 256, false, "prompt_opt_512_64");
  expect(&l, 1, 4095, true, "extend_4096_8");
  expect(&l, 1, 4096, true, NULL);
  expect(&l, 100, 4096, false, NULL);
  crn_ladder_free(crn_default_allocator(), &l);
  // Without functions for prompts the others do their work.
  standard(kExtend);
  test_expect(crn_ladder_read(crn_default_allocator(), g_list, g_n, 4096, &l), CAIRN_OK, "");
  expect(&l, 128, 0, false, "extend_256_64");
  crn_ladder_free(crn_default_allocator(), &l);
}

static void test_single_rungs(void **state) {
  (void)state;
  crn_ladder l;
  g_n = 0;
  test_expect(crn_ladder_read(crn_default_allocator(), g_list, 0, 256, &l), CAIRN_UNSUPPORTED, "No extend functions found");
  add("prompt_opt_256_8");
  test_expect(crn_ladder_read(crn_default_allocator(), g_list, g_n, 256, &l), CAIRN_UNSUPPORTED, "No extend functions found");
  add("extend_100_8");
  test_expect(crn_ladder_read(crn_default_allocator(), g_list, g_n, 256, &l), CAIRN_OK, "");
  assert_int_equal(l.reach, 96);
  expect(&l, 1, 90, true, "extend_100_8");
  // The block 96 to 103 would reach over the end of the cache.
  expect(&l, 1, 96, true, NULL);
  crn_ladder_free(crn_default_allocator(), &l);
}

// A ladder with one query size per context: a smaller one of the right reach is better than none.
static void test_uneven_ladder(void **state) {
  (void)state;
  crn_ladder l;
  g_n = 0;
  add("extend_96_64");
  add("extend_128_8");
  test_expect(crn_ladder_read(crn_default_allocator(), g_list, g_n, 128, &l), CAIRN_OK, "");
  expect(&l, 40, 0, true, "extend_96_64");
  expect(&l, 40, 64, true, "extend_128_8");
  expect(&l, 1, 127, true, "extend_128_8");
  crn_ladder_free(crn_default_allocator(), &l);
}

static cairn_descriptor shaped(const char *name, int64_t a, int64_t b, int64_t c, int64_t d) {
  return (cairn_descriptor){.name = name, .dtype = CAIRN_F16, .rank = 4, .shape = {a, b, c, d}};
}

// Functions that were not expanded: the shapes tell, and open shapes stand for the whole ladder.
static void test_unexpanded(void **state) {
  (void)state;
  crn_ladder l;
  g_n = 0;
  add("extend");
  cairn_descriptor inputs[] = {shaped("transformer_input", 1, 8, 1, 64), shaped("causal_mask", 1, 256, 1, 8)};
  g_infos[0].inputs = inputs;
  g_infos[0].n_inputs = 2;
  test_expect(crn_ladder_read(crn_default_allocator(), g_list, 1, 4096, &l), CAIRN_OK, "");
  assert_int_equal(l.rungs.size, 1);
  assert_int_equal(l.rungs.items[0].query, 8);
  assert_int_equal(l.rungs.items[0].context, 256);
  crn_ladder_free(crn_default_allocator(), &l);
  inputs[0].shape[1] = inputs[1].shape[1] = inputs[1].shape[3] = CAIRN_DYNAMIC;
  test_expect(crn_ladder_read(crn_default_allocator(), g_list, 1, 1000, &l), CAIRN_OK, "");
  assert_int_equal(l.rungs.size, 9);  // 8, 16, 64 by 256, 512, 1024
  assert_int_equal(l.max_context, 1024);
  crn_ladder_limit(&l, 600);
  assert_int_equal(l.rungs.size, 6);
  assert_int_equal(l.max_context, 512);
  assert_int_equal(l.reach, 512);
  crn_ladder_free(crn_default_allocator(), &l);
  // A name against its shapes.
  g_n = 0;
  add("extend_256_16");
  g_infos[0].inputs = inputs;
  g_infos[0].n_inputs = 2;
  inputs[0].shape[1] = 8;
  test_expect(crn_ladder_read(crn_default_allocator(), g_list, 1, 256, &l), CAIRN_UNSUPPORTED, "is named for 16 tokens");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_table), cmocka_unit_test(test_single_rungs),
                                     cmocka_unit_test(test_uneven_ladder), cmocka_unit_test(test_unexpanded)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
