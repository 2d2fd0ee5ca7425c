// Attention as torch models write it out (scripts/goldens/attention.py): the plan of each stored form has it as one step. That the values
// are right is for the goldens of these cases.
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cairn/model.h"

#define FOLDER CAIRN_TEST_DATA "/attention"

// A cap on the scores, and two masks one after the other, are not part of the step.
static const char *const kSpelledOut[] = {"attention_gemma_", "attention_bloom_", "attention_gpt2_two_masks_"};

// Heads of a group read one cache: nothing repeats keys or values.
static const char *const kGrouped[] = {"attention_llama_", "attention_interleaved_", "attention_cached_"};

static bool begins_with_any(const char *name, const char *const *list, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (!strncmp(name, list[i], strlen(list[i]))) return true;
  }
  return false;
}

static char *plan_of(cairn_context *context, const char *name) {
  char path[1024];
  cairn_model *model;
  cairn_function *f;
  size_t bytes, again;
  snprintf(path, sizeof path, FOLDER "/%s/model.aimodel", name);
  assert_int_equal(cairn_model_load(context, path, NULL, &model), CAIRN_OK);
  assert_int_equal(cairn_model_function(model, "main", &f), CAIRN_OK);
  assert_int_equal(cairn_function_print_plan(f, NULL, 0, &bytes), CAIRN_OK);
  char *text = calloc(1, bytes + 1);
  assert_non_null(text);
  assert_int_equal(cairn_function_print_plan(f, text, bytes, &again), CAIRN_OK);
  cairn_function_release(f);
  cairn_model_release(model);
  return text;
}

static void check_form(cairn_context *context, const char *name) {
  char *text = plan_of(context, name);
  const bool is_one = strstr(text, "= attention(") || strstr(text, "= scaled_dot_product_attention(");
  const bool has_rest = strstr(text, "softmax(");
  const bool wanted = !begins_with_any(name, kSpelledOut, sizeof kSpelledOut / sizeof *kSpelledOut);
  if (is_one != wanted || has_rest == wanted) fail_msg("%s:\n%s", name, text);
  const char *at = strstr(text, "= attention(");
  if (begins_with_any(name, kGrouped, sizeof kGrouped / sizeof *kGrouped) && !strstr(at, "[2,2,1,")) fail_msg("%s:\n%s", name, text);
  free(text);
}

static void test_forms(void **state) {
  (void)state;
  cairn_context *context;
  int n = 0;
  assert_int_equal(cairn_context_create(NULL, &context), CAIRN_OK);
  DIR *folder = opendir(FOLDER);
  assert_non_null(folder);
  for (struct dirent *e; (e = readdir(folder));) {
    if (strncmp(e->d_name, "attention_", 10)) continue;
    check_form(context, e->d_name);
    n++;
  }
  closedir(folder);
  assert_true(n >= 30);
  cairn_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_forms)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
