/// The rounded precisions against torch's goldens: every row of logits of every bundle with goldens, fed in one piece and token by token.
/// And against exact precision on chats with a real model, whose thirty layers amplify what each of them rounds.
/// Run again with fewer of the processor's features (CAIRN_CPU_MASK): the gate holds for every kernel that may be chosen.
#include <dirent.h>
#include <unistd.h>

#include "base/cpu.h"
#include "lm.h"

enum { MAX_BUNDLES = 64 };

// What a mode must keep of models with quantised weights. Others are not far behind, but no mode is ever chosen for them without being
// asked for: a rounded row may choose another expert where two are nearly equal.
static const double kQuantised = 0.999, kOther = 0.995;

static char g_names[MAX_BUNDLES][256];
static int g_n_names;

static int compare_names(const void *a, const void *b) { return strcmp(a, b); }

static void find_bundles(void) {
  DIR *folder = opendir(LM_MODELS);
  for (struct dirent *e; folder && (e = readdir(folder));) {
    char path[768];
    snprintf(path, sizeof path, LM_MODELS "%s/golden.safetensors", e->d_name);
    bool is_language = strncmp(e->d_name, "tiny-", 5) == 0 && (strstr(e->d_name, "-macos") || strstr(e->d_name, "-ios"));
    if (g_n_names < MAX_BUNDLES && is_language && access(path, R_OK) == 0) snprintf(g_names[g_n_names++], sizeof *g_names, "%s", e->d_name);
  }
  if (folder) closedir(folder);
  qsort(g_names, (size_t)g_n_names, sizeof *g_names, compare_names);
}

static lm_ids all_tokens(const crn_safetensors *file) {
  lm_ids prompt = lm_golden_ids(file, "in_promptA"), steps = lm_golden_ids(file, "in_decodeA"), all = {.n = prompt.n + steps.n};
  all.data = malloc((size_t)all.n * sizeof *all.data);
  assert_non_null(all.data);
  memcpy(all.data, prompt.data, (size_t)prompt.n * sizeof *all.data);
  memcpy(all.data + prompt.n, steps.data, (size_t)steps.n * sizeof *all.data);
  free(prompt.data);
  free(steps.data);
  return all;
}

static double least_cosine(const lm_rows *rows, const lm_rows *a, const lm_rows *b) {
  double least = 1;
  assert_int_equal(rows->n, a->n + b->n);
  for (int64_t i = 0; i < rows->n; i++) {
    const float *golden = i < a->n ? a->data + i * a->width : b->data + (i - a->n) * b->width;
    double cosine = lm_cosine(rows->data + i * rows->width, golden, rows->width);
    if (!(cosine >= least)) least = cosine;
  }
  return least;
}

static void check_precision(const char *bundle, cairn_precision precision, const crn_safetensors *file) {
  cairn_context *context = lm_context(2);
  const cairn_model_options model = {.precision = precision, .no_cache = true};
  cairn_llm *llm = lm_open(context, bundle, &(cairn_llm_options){.model = &model});
  cairn_llm_info info;
  cairn_llm_describe(llm, &info);
  assert_string_equal(info.precision, cairn_precision_text(precision));
  lm_ids tokens = all_tokens(file);
  lm_rows prefill = lm_golden_rows(file, "torch_A_prefill"), steps = lm_golden_rows(file, "torch_A_steps");
  double limit = strstr(bundle, "4bit") ? kQuantised : kOther;
  for (int i = 0; i < 2; i++) {
    lm_rows rows = {0};
    LM_OK(cairn_llm_reset(llm, 0));
    lm_feed(llm, tokens.data, tokens.n, i ? 1 : tokens.n, &rows);
    double least = least_cosine(&rows, &prefill, &steps);
    print_message("%-28s %s %s: least cosine %.6f\n", bundle, info.precision, i ? "token by token" : "in one piece", least);
    if (!(least >= limit)) fail_msg("%s %s: the least cosine of its rows is %.6f, not %.3f", bundle, info.precision, least, limit);
    lm_rows_free(&rows);
  }
  lm_rows_free(&prefill);
  lm_rows_free(&steps);
  free(tokens.data);
  cairn_llm_close(llm);
  cairn_context_release(context);
}

static void test_precisions(void **state) {
  const char *bundle = *state;
  crn_safetensors *file = lm_goldens(bundle);
  check_precision(bundle, CAIRN_PRECISION_BF16, file);
  check_precision(bundle, CAIRN_PRECISION_INT8, file);
  crn_safetensors_close(file);
}

// --- chats ------------------------------------------------------------------------------------------------------------------

#define CHAT_MODEL "smollm2-4bit-macos"
#define SYSTEM(text) "<|im_start|>system\n" text "<|im_end|>\n"
#define USER(text) "<|im_start|>user\n" text "<|im_end|>\n<|im_start|>assistant\n"

static const char *const g_chats[] = {
    USER("Translate 'good morning' to French."),
    SYSTEM("The following is a conversation with a child of six years. You write poems.") USER("Hello!"),
    SYSTEM("You speak like Shakespeare. You are an expert in cooking.") USER("What is 17 * 23?"),
    SYSTEM("You are a helpful AI assistant named SmolLM, trained by Hugging Face") USER("Hi"),
};
enum { N_CHATS = sizeof g_chats / sizeof *g_chats, MOST_TOKENS = 64 };

static lm_ids encode_chat(cairn_llm *llm, const char *text) {
  size_t n;
  lm_ids ids = {.data = malloc(MOST_TOKENS * sizeof *ids.data)};
  assert_non_null(ids.data);
  LM_OK(cairn_tokenizer_encode_whole(cairn_llm_tokenizer(llm), text, strlen(text), true, ids.data, MOST_TOKENS, &n));
  assert_in_range(n, 1, MOST_TOKENS);
  ids.n = (int64_t)n;
  return ids;
}

// Rows of a chat in pieces of some sizes, for which there are different kernels.
static void check_chat(cairn_llm *exact, cairn_llm *rounded, const char *precision, const char *text) {
  static const int64_t pieces[] = {MOST_TOKENS, 7, 1};
  lm_ids ids = encode_chat(exact, text);
  lm_rows want = {0}, none = {0};
  LM_OK(cairn_llm_reset(exact, 0));
  lm_feed(exact, ids.data, ids.n, ids.n, &want);
  for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
    lm_rows rows = {0};
    LM_OK(cairn_llm_reset(rounded, 0));
    lm_feed(rounded, ids.data, ids.n, pieces[i], &rows);
    double least = least_cosine(&rows, &want, &none);
    print_message("%s %s, pieces of %d: least cosine %.6f of %d rows\n", CHAT_MODEL, precision, (int)pieces[i], least, (int)rows.n);
    if (!(least >= kQuantised)) fail_msg("%s, pieces of %d: %.6f, not %.3f in '%s'", precision, (int)pieces[i], least, kQuantised, text);
    lm_rows_free(&rows);
  }
  lm_rows_free(&want);
  free(ids.data);
}

static void test_chats(void **state) {
  (void)state;
  lm_need(LM_MODELS CHAT_MODEL);
  cairn_context *context = lm_context(2);
  cairn_model_options model = {.precision = CAIRN_PRECISION_EXACT, .no_cache = true};
  cairn_llm *exact = lm_open(context, CHAT_MODEL, &(cairn_llm_options){.model = &model});
  for (int i = 0; i < 2; i++) {
    model.precision = i ? CAIRN_PRECISION_INT8 : CAIRN_PRECISION_BF16;
    cairn_llm *rounded = lm_open(context, CHAT_MODEL, &(cairn_llm_options){.model = &model});
    // Without any vectors a single chat takes long enough.
    for (int c = 0; c < (crn_cpu_bits() ? N_CHATS : 1); c++) check_chat(exact, rounded, cairn_precision_text(model.precision), g_chats[c]);
    cairn_llm_close(rounded);
  }
  cairn_llm_close(exact);
  cairn_context_release(context);
}

int main(void) {
  static struct CMUnitTest tests[MAX_BUNDLES + 1];
  find_bundles();
  for (int i = 0; i < g_n_names; i++) tests[i] = (struct CMUnitTest){g_names[i], test_precisions, NULL, NULL, g_names[i]};
  tests[g_n_names] = (struct CMUnitTest)cmocka_unit_test(test_chats);
  if (!g_n_names) {
    print_message("skipped: no bundles in %s\n", LM_MODELS);
    return 77;
  }
  return _cmocka_run_group_tests("precisions", tests, (size_t)g_n_names + 1, NULL, NULL);
}
