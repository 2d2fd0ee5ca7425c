// What members of a batch win by drafts and by prompts that begin alike.
//
//   together MODEL [TOKENS=64] [PREFIX=512]
//
// For 1, 2, 4 and 8 members: tokens a second without and with drafts by lookup, in turn, on texts that begin a second time and on random
// tokens; tokens are compared. Then the time until all of 8 prompts with a common beginning have their first token, computed apart and
// once.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/measure.h"

enum { MOST = 8, ROUNDS = 3, PROMPT = 96, MOST_TOKENS = 4096 };

static const char *const kLines[] = {"The harbor keeps its lanterns low when winter comes to stay,\n",
                                     "The fishing boats lie side by side and rock the night away,\n",
                                     "An old man counts the ropes again, he knows them all by name,\n",
                                     "And every spring he paints the hulls, and paints them all the same.\n",
                                     "The gulls come down along the pier to see what they can find,\n",
                                     "The tide takes out a broken oar and leaves a shell behind,\n",
                                     "A girl walks slowly with her dog and writes upon the sand,\n",
                                     "The sea comes in and reads it once, and smooths it with its hand.\n"};

static void check(cairn_status status) { bench_check("together", status); }

static uint32_t g_random = 1;

static int32_t draw(int64_t below) {
  g_random = g_random * 1664525u + 1013904223u;
  return (int32_t)((g_random >> 8) % (uint64_t)below);
}

// What all members give, and how long it takes behind their prompts.
typedef struct result {
  double seconds, drafted, accepted;
  int32_t tokens[MOST][MOST_TOKENS];
  int64_t hits;
} result;

static void run(const cairn_llm *llm, int n, int32_t (*prompts)[MOST_TOKENS], int64_t n_prompt, int64_t n_tokens, bool drafts, bool shares,
                result *r) {
  cairn_llm_batch *batch;
  cairn_llm_batch_step_info info;
  int64_t ids[MOST];
  check(cairn_llm_batch_create(llm, &(cairn_llm_batch_options){.no_sharing = !shares}, &batch));
  for (int i = 0; i < n; i++) {
    cairn_generate_options o = {.tokens = prompts[i], .n_tokens = (size_t)n_prompt, .max_tokens = n_tokens, .ignore_eos = true};
    if (drafts) o.speculation.mode = CAIRN_SPECULATION_LOOKUP;
    check(cairn_llm_batch_join(batch, &o, &ids[i]));
  }
  double start = bench_now();
  do check(cairn_llm_batch_step(batch, &info));
  while (n_tokens > 1 && info.n_generating < n && info.n_active);
  if (n_tokens > 1) start = bench_now();
  check(cairn_llm_batch_run(batch));
  r->seconds = bench_now() - start;
  r->drafted = r->accepted = 0;
  r->hits = 0;
  for (int i = 0; i < n; i++) {
    cairn_generation *g;
    cairn_generation_info got;
    check(cairn_llm_batch_take(batch, ids[i], &g));
    cairn_generation_get(g, &got);
    memcpy(r->tokens[i], got.tokens, got.n_tokens * sizeof *got.tokens);
    r->drafted += (double)got.drafted_tokens;
    r->accepted += (double)got.accepted_tokens;
    r->hits += got.prefix_hit;
    cairn_generation_destroy(g);
  }
  cairn_llm_batch_destroy(batch);
}

static result g_plain, g_other;
static int32_t g_prompts[MOST][MOST_TOKENS];

// The poem from another line on, and its first line again; of as many tokens as the shortest.
static int64_t make_poems(const cairn_llm *llm, int n) {
  int64_t least = MOST_TOKENS;
  for (int i = 0; i < n; i++) {
    char text[2048] = "";
    size_t n_ids;
    for (int k = 0; k <= MOST; k++) strcat(text, kLines[(i + k) % MOST]);
    check(cairn_tokenizer_encode_whole(cairn_llm_tokenizer(llm), text, strlen(text), true, g_prompts[i], MOST_TOKENS, &n_ids));
    if ((int64_t)n_ids < least) least = (int64_t)n_ids;
  }
  return least;
}

static void compare_drafts(const cairn_llm *llm, int64_t vocab, int n, int64_t n_tokens, bool repeats) {
  double plain = 1e9, drafted = 1e9;
  int64_t n_prompt = PROMPT;
  if (repeats) {
    n_prompt = make_poems(llm, n);
  } else {
    for (int i = 0; i < n; i++) {
      for (int64_t k = 0; k < PROMPT; k++) g_prompts[i][k] = draw(vocab);
    }
  }
  for (int round = 0; round < ROUNDS; round++) {
    run(llm, n, g_prompts, n_prompt, n_tokens, false, false, &g_plain);
    run(llm, n, g_prompts, n_prompt, n_tokens, true, false, &g_other);
    if (g_plain.seconds < plain) plain = g_plain.seconds;
    if (g_other.seconds < drafted) drafted = g_other.seconds;
    for (int i = 0; i < n; i++) {
      if (memcmp(g_plain.tokens[i], g_other.tokens[i], (size_t)n_tokens * sizeof **g_plain.tokens)) printf("OTHER TOKENS\n");
    }
  }
  const double all = (double)(n * (n_tokens - 1));
  printf("%d %-10s %8.1f tokens/s, with drafts %8.1f: %.2fx (%.0f drafted, %.0f right)\n", n, repeats ? "repeating" : "random", all / plain,
         all / drafted, plain / drafted, g_other.drafted, g_other.accepted);
}

static void compare_prefixes(const cairn_llm *llm, int64_t vocab, int64_t n_prefix) {
  enum { OWN = 32 };
  for (int64_t k = 0; k < n_prefix; k++) g_prompts[0][k] = draw(vocab);
  for (int i = 0; i < MOST; i++) {
    if (i) memcpy(g_prompts[i], g_prompts[0], (size_t)n_prefix * sizeof **g_prompts);
    for (int k = 0; k < OWN; k++) g_prompts[i][n_prefix + k] = draw(vocab);
  }
  run(llm, MOST, g_prompts, n_prefix + OWN, 1, false, false, &g_plain);
  run(llm, MOST, g_prompts, n_prefix + OWN, 1, false, true, &g_other);
  printf("%d prompts of %lld common tokens and %d of their own: %.3f s apart, %.3f s shared (%lld tokens found): %.2fx\n", MOST,
         (long long)n_prefix, OWN, g_plain.seconds, g_other.seconds, (long long)g_other.hits, g_plain.seconds / g_other.seconds);
}

int main(int argc, char **argv) {
  cairn_context *context;
  cairn_llm *llm;
  cairn_llm_info info;
  if (argc < 2) return fprintf(stderr, "usage: together MODEL [TOKENS] [PREFIX]\n"), 2;
  const int64_t n_tokens = argc > 2 ? atoll(argv[2]) : 64, n_prefix = argc > 3 ? atoll(argv[3]) : 512;
  if (n_tokens < 2 || n_tokens > MOST_TOKENS || n_prefix < 1 || n_prefix > MOST_TOKENS - 64)
    return fprintf(stderr, "together: 2 to 4032\n"), 2;
  check(cairn_context_create(NULL, &context));
  check(cairn_llm_open(context, argv[1], NULL, &llm));
  cairn_llm_describe(llm, &info);
  for (int n = 1; n <= MOST; n *= 2) {
    if (cairn_llm_tokenizer(llm)) compare_drafts(llm, info.vocab_size, n, n_tokens, true);
    compare_drafts(llm, info.vocab_size, n, n_tokens, false);
    fflush(stdout);
  }
  compare_prefixes(llm, info.vocab_size, n_prefix);
  cairn_llm_close(llm);
  cairn_context_release(context);
  return 0;
}
