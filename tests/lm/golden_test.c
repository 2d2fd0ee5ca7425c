/// Every tiny bundle, of the dynamic contract and of fixed shapes, against the goldens that came with it, fed in one piece,
/// in pieces and token by token; and the bits of the logits across all of these and across thread counts.
#include <dirent.h>
#include <unistd.h>

#include "lm.h"

enum { MAX_BUNDLES = 64 };

static char g_names[MAX_BUNDLES][256];
static int g_n_names;

static bool has(const char *bundle, const char *file) {
  char path[512];
  snprintf(path, sizeof path, LM_MODELS "%s/%s", bundle, file);
  return access(path, R_OK) == 0;
}

static int compare_names(const void *a, const void *b) { return strcmp(a, b); }

// All folders with metadata and goldens of sequence A: those of one dynamic function and those of a ladder of fixed shapes.
static void find_bundles(void) {
  DIR *folder = opendir(LM_MODELS);
  for (struct dirent *e; folder && (e = readdir(folder));) {
    if (g_n_names == MAX_BUNDLES || strncmp(e->d_name, "tiny-", 5) != 0 || !(strstr(e->d_name, "-macos") || strstr(e->d_name, "-ios")))
      continue;
    if (has(e->d_name, "metadata.json") && has(e->d_name, "golden.safetensors"))
      snprintf(g_names[g_n_names++], sizeof *g_names, "%s", e->d_name);
  }
  if (folder) closedir(folder);
  qsort(g_names, (size_t)g_n_names, sizeof *g_names, compare_names);
}

typedef struct sequence {
  lm_ids prompt, rest, steps;  ///< the second piece is empty for sequence A
} sequence;

static void free_sequence(sequence *s) {
  free(s->prompt.data);
  free(s->rest.data);
  free(s->steps.data);
}

// All tokens of a sequence one behind the other.
static lm_ids join(const sequence *s) {
  lm_ids all = {.n = s->prompt.n + s->rest.n + s->steps.n};
  all.data = malloc((size_t)all.n * sizeof *all.data);
  assert_non_null(all.data);
  memcpy(all.data, s->prompt.data, (size_t)s->prompt.n * sizeof *all.data);
  if (s->rest.n) memcpy(all.data + s->prompt.n, s->rest.data, (size_t)s->rest.n * sizeof *all.data);
  memcpy(all.data + s->prompt.n + s->rest.n, s->steps.data, (size_t)s->steps.n * sizeof *all.data);
  return all;
}

// The golden rows of all tokens, from up to three tensors.
static lm_rows golden_of(const crn_safetensors *file, const char *const *names) {
  lm_rows all = {0};
  for (; *names; names++) {
    lm_rows part = lm_golden_rows(file, *names);
    if (!part.n) fail_msg("the goldens have no '%s'", *names);
    for (int64_t r = 0; r < part.n; r++) lm_keep_row(&all, 0, part.data + r * part.width, part.width);
    lm_rows_free(&part);
  }
  return all;
}

static void check_sequence(cairn_llm *llm, const char *bundle, const char *what, const lm_ids *tokens, const lm_rows *golden,
                           const lm_bound *bound) {
  const int64_t pieces[] = {tokens->n, 5, 3, 1};
  lm_rows first = {0};
  double worst = 0;
  for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
    lm_rows rows = {0};
    LM_OK(cairn_llm_reset(llm, 0));
    lm_feed(llm, tokens->data, tokens->n, pieces[i], &rows);
    char label[512];
    snprintf(label, sizeof label, "%s, sequence %s in pieces of %lld", bundle, what, (long long)pieces[i]);
    double d = lm_compare(label, &rows, golden, bound);
    worst = d > worst ? d : worst;
    if (i == 0) {
      first = rows;
    } else {
      if (memcmp(rows.data, first.data, (size_t)(rows.n * rows.width) * sizeof *rows.data) != 0)
        fail_msg("%s: other bits than in one piece", label);
      lm_rows_free(&rows);
    }
  }
  print_message("%-28s %s: %.2f of the bound\n", bundle, what, worst);
  lm_rows_free(&first);
}

static void check_greedy(cairn_llm *llm, const char *bundle, const lm_ids *prompt, const lm_ids *golden, const lm_bound *bound) {
  lm_ids tokens;
  lm_rows rows;
  lm_greedy(llm, prompt, golden->n, &tokens, &rows);
  double most = 0;
  for (int64_t i = 0; i < rows.n * rows.width; i++) most = rows.data[i] > most ? (double)rows.data[i] : most;
  double limit = 2 * (bound->relative * most > bound->absolute ? bound->relative * most : bound->absolute);
  for (int64_t i = 0; i < golden->n; i++) {
    if (tokens.data[i] == golden->data[i]) continue;
    double gap = lm_gap(rows.data + i * rows.width, rows.width);
    if (gap >= limit)
      fail_msg("%s: greedy token %lld is %d instead of %d, gap %g", bundle, (long long)i, tokens.data[i], golden->data[i], gap);
    print_message("%-28s greedy: a near tie at token %lld (gap %g, bound %g); what follows is not compared\n", bundle, (long long)i, gap,
                  limit);
    break;
  }
  free(tokens.data);
  lm_rows_free(&rows);
}

static void test_goldens(void **state) {
  const char *bundle = *state;
  cairn_context *context = lm_context(2);
  cairn_llm *llm = lm_open(context, bundle, NULL);
  cairn_llm_info info;
  cairn_llm_describe(llm, &info);
  lm_bound bound = lm_bound_of(info.kv_dtype);
  crn_safetensors *file = lm_goldens(bundle);
  sequence a = {.prompt = lm_golden_ids(file, "in_promptA"), .steps = lm_golden_ids(file, "in_decodeA")};
  sequence b = {
      .prompt = lm_golden_ids(file, "in_chunkB1"), .rest = lm_golden_ids(file, "in_chunkB2"), .steps = lm_golden_ids(file, "in_decodeB")};
  lm_rows golden_a = golden_of(file, (const char *const[]){"torch_A_prefill", "torch_A_steps", NULL});
  lm_rows golden_b = golden_of(file, (const char *const[]){"torch_B_chunk1", "torch_B_chunk2", "torch_B_steps", NULL});
  lm_ids all_a = join(&a), all_b = join(&b), greedy = lm_golden_ids(file, "torch_greedy");
  check_sequence(llm, bundle, "A", &all_a, &golden_a, &bound);
  check_sequence(llm, bundle, "B", &all_b, &golden_b, &bound);
  check_greedy(llm, bundle, &a.prompt, &greedy, &bound);
  free(greedy.data);
  free(all_a.data);
  free(all_b.data);
  free_sequence(&a);
  free_sequence(&b);
  lm_rows_free(&golden_a);
  lm_rows_free(&golden_b);
  crn_safetensors_close(file);
  cairn_llm_close(llm);
  cairn_context_release(context);
}

static lm_rows rows_with(const char *bundle, int n_threads, int64_t piece, const cairn_llm_options *options) {
  cairn_context *context = lm_context(n_threads);
  cairn_llm *llm = lm_open(context, bundle, options);
  int32_t tokens[40];
  lm_rows rows = {0};
  for (int i = 0; i < 40; i++) tokens[i] = (i * 37 + 11) % 300;
  lm_feed(llm, tokens, 40, piece, &rows);
  cairn_llm_close(llm);
  cairn_context_release(context);
  return rows;
}

static bool has_fixed_cache(const char *bundle) {
  cairn_context *context = lm_context(1);
  cairn_llm *llm = lm_open(context, bundle, NULL);
  cairn_llm_info info;
  cairn_llm_describe(llm, &info);
  bool is_fixed = strcmp(info.kv_strategy, "fixed") == 0;
  cairn_llm_close(llm);
  cairn_context_release(context);
  return is_fixed;
}

// 40 tokens as 1 x 40, 16 + 16 + 8, 17 + 23 and 40 x 1, on one thread and on three, in caches of several sizes.
static void test_bits(void **state) {
  const char *bundle = *state;
  static const int64_t kPieces[] = {40, 16, 17, 1};
  static const cairn_llm_options kOptions[] = {{0}, {.kv = "fixed"}, {.kv_capacity = 16}, {.kv = "fixed", .kv_capacity = 41}};
  bool is_fixed = has_fixed_cache(bundle);
  lm_rows first = rows_with(bundle, 1, 40, NULL);
  for (int i = 0; i < 4; i++) {
    for (int threads = 1; threads <= 3; threads += 2) {
      const cairn_llm_options *options = &kOptions[(i + threads) % 4];
      // A cache of fixed size does not grow: starting small would end there.
      lm_rows rows = rows_with(bundle, threads, kPieces[i], is_fixed && options->kv_capacity == 16 ? NULL : options);
      assert_int_equal(rows.n, 40);
      if (memcmp(rows.data, first.data, (size_t)(rows.n * rows.width) * sizeof *rows.data) != 0) {
        fail_msg("%s: pieces of %lld on %d threads give other bits", bundle, (long long)kPieces[i], threads);
      }
      lm_rows_free(&rows);
    }
  }
  lm_rows_free(&first);
}

int main(void) {
  static struct CMUnitTest tests[2 * MAX_BUNDLES];
  static char names[2 * MAX_BUNDLES][280];
  size_t n = 0;
  find_bundles();
  for (int i = 0; i < g_n_names; i++) {
    snprintf(names[n], sizeof *names, "goldens of %s", g_names[i]);
    tests[n] = (struct CMUnitTest){names[n], test_goldens, NULL, NULL, g_names[i]};
    n++;
    snprintf(names[n], sizeof *names, "bits of %s", g_names[i]);
    tests[n] = (struct CMUnitTest){names[n], test_bits, NULL, NULL, g_names[i]};
    n++;
  }
  if (!n) {
    print_message("skipped: no bundles in %s\n", LM_MODELS);
    return 77;
  }
  return _cmocka_run_group_tests("golden", tests, n, NULL, NULL);
}
