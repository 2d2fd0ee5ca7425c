/// What the precisions cost in quality: the perplexity of a text and how near rows of logits come to those of exact precision, fed as a
/// prompt and token by token (other kernels compute these).
///
///   bench_quality MODEL TEXT [TOKENS]
///
/// The exit code is 1 when a precision misses the gate: perplexity within 1 % of exact, every row's cosine 0.999 at least.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cairn/cairn.h"

enum { DEFAULT_TOKENS = 2048, MOST_TEXT = 1 << 24 };

static const double least_cosine = 0.999, most_ratio = 1.01;

static void need(cairn_status status) {
  if (status == CAIRN_OK) return;
  fprintf(stderr, "bench_quality: %s\n", cairn_last_error()->message);
  exit(2);
}

static void *memory(size_t bytes) {
  void *p = malloc(bytes ? bytes : 1);
  if (p) return p;
  fprintf(stderr, "bench_quality: no memory for %zu bytes\n", bytes);
  exit(2);
}

/// One pass over the text.
typedef struct pass {
  const int32_t *tokens;
  int64_t n;
  float *exact;  ///< rows of the exact pass, kept by it and compared with by others
  bool keeps;
  double log_sum, least_cosine, cosine_sum;
  int64_t n_rows;
} pass;

static double log_probability(const float *row, int64_t n, int32_t token) {
  double most = row[0], sum = 0;
  for (int64_t i = 1; i < n; i++) most = row[i] > most ? row[i] : most;
  for (int64_t i = 0; i < n; i++) sum += exp(row[i] - most);
  return row[token] - most - log(sum);
}

static double cosine(const float *a, const float *b, int64_t n) {
  double ab = 0, aa = 0, bb = 0;
  for (int64_t i = 0; i < n; i++) {
    ab += (double)a[i] * b[i];
    aa += (double)a[i] * a[i];
    bb += (double)b[i] * b[i];
  }
  return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : aa == bb;
}

static cairn_status take_row(void *user, int64_t position, const float *row, int64_t vocab_size) {
  pass *p = user;
  float *kept = p->exact + (size_t)position * (size_t)vocab_size;
  if (p->keeps) memcpy(kept, row, (size_t)vocab_size * sizeof *row);
  double c = cosine(kept, row, vocab_size);
  p->least_cosine = c < p->least_cosine ? c : p->least_cosine;
  p->cosine_sum += c;
  p->n_rows++;
  // The last token's prediction has nothing to be compared with.
  if (position + 1 < p->n) p->log_sum += log_probability(row, vocab_size, p->tokens[position + 1]);
  return CAIRN_OK;
}

static void run(cairn_llm *llm, bool by_token, pass *p) {
  p->least_cosine = 2;
  need(cairn_llm_reset(llm, 0));
  for (int64_t i = 0; i < p->n; i += by_token ? 1 : p->n) {
    need(cairn_llm_forward(
        llm, &(cairn_forward_options){
                 .tokens = p->tokens + i, .n_tokens = by_token ? 1 : (size_t)p->n, .all_rows = true, .on_logits = take_row, .user = p}));
  }
}

static cairn_llm *open_model(cairn_context *context, const char *path, cairn_precision precision) {
  cairn_llm *llm;
  const cairn_model_options model = {.precision = precision};
  need(cairn_llm_open(context, path, &(cairn_llm_options){.model = &model}, &llm));
  return llm;
}

static char *read_text(const char *path, size_t *out_bytes) {
  FILE *f = fopen(path, "rb");
  char *text = memory(MOST_TEXT);
  if (!f) {
    fprintf(stderr, "bench_quality: cannot open '%s'\n", path);
    exit(2);
  }
  *out_bytes = fread(text, 1, MOST_TEXT, f);
  fclose(f);
  return text;
}

static int64_t encode(cairn_context *context, const char *model, const char *path, int64_t most, int32_t *tokens, int64_t *out_vocab) {
  cairn_llm *llm = open_model(context, model, CAIRN_PRECISION_EXACT);
  cairn_llm_info info;
  size_t bytes, count;
  char *text = read_text(path, &bytes);
  need(cairn_llm_has_text(llm));
  need(cairn_tokenizer_encode_whole(cairn_llm_tokenizer(llm), text, bytes, true, tokens, (size_t)most, &count));
  cairn_llm_describe(llm, &info);
  *out_vocab = info.vocab_size;
  free(text);
  cairn_llm_close(llm);
  return (int64_t)count < most ? (int64_t)count : most;
}

int main(int argc, char **argv) {
  static const cairn_precision precisions[] = {CAIRN_PRECISION_EXACT, CAIRN_PRECISION_BF16, CAIRN_PRECISION_INT8};
  static const char *const ways[] = {"as a prompt", "token by token"};
  int64_t most = argc > 3 ? atoll(argv[3]) : DEFAULT_TOKENS, vocab;
  if (argc < 3 || most < 2) {
    fprintf(stderr, "usage: bench_quality MODEL TEXT [TOKENS]\n");
    return 2;
  }
  cairn_context *context;
  need(cairn_context_create(NULL, &context));
  int32_t *tokens = memory((size_t)most * sizeof *tokens);
  int64_t n = encode(context, argv[1], argv[2], most, tokens, &vocab);
  float *exact = memory((size_t)n * (size_t)vocab * sizeof *exact);
  double reference = 0;
  int failures = 0;
  printf("%lld tokens of %s\n\n| precision | fed | perplexity | to exact | least cosine | mean cosine |\n|---|---|---|---|---|---|\n",
         (long long)n, argv[2]);
  for (size_t i = 0; i < sizeof precisions / sizeof *precisions; i++) {
    cairn_llm *llm = open_model(context, argv[1], precisions[i]);
    for (int way = 0; way < 2; way++) {
      pass p = {.tokens = tokens, .n = n, .exact = exact, .keeps = i == 0 && way == 0};
      run(llm, way == 1, &p);
      double perplexity = exp(-p.log_sum / (double)(n - 1));
      if (p.keeps) reference = perplexity;
      printf("| %s | %s | %.4f | %+.3f %% | %.6f | %.6f |\n", cairn_precision_text(precisions[i]), ways[way], perplexity,
             (perplexity / reference - 1) * 100, p.least_cosine, p.cosine_sum / (double)p.n_rows);
      fflush(stdout);
      failures += !(perplexity <= reference * most_ratio) || !(p.least_cosine >= least_cosine);
    }
    cairn_llm_close(llm);
  }
  free(exact);
  free(tokens);
  cairn_context_release(context);
  return failures ? 1 : 0;
}
