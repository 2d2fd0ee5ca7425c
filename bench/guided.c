// What guided generation costs:  bench_guided MODEL [rounds]
//
// First the masks alone: documents of a few grammars are walked with the model's tokenizer, once with what is met for the first time and
// once with what is known. Then generations with and without a grammar in turn, as many tokens each; medians of the time a decoded token
// takes.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/measure.h"

enum { TOKENS = 96, MAX_ROUNDS = 64, MAX_IDS = 512 };

typedef struct subject {
  const char *name;
  cairn_grammar_kind kind;
  const char *grammar, *document;
} subject;

static const subject SUBJECTS[] = {
    {"schema, bounded strings", CAIRN_GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":40},\"age\":{\"type\":\"integer\",\"minimum\":0,"
     "\"maximum\":120},"
     "\"hobbies\":{\"type\":\"array\",\"items\":{\"type\":\"string\",\"maxLength\":30},\"minItems\":2}},\"required\":[\"name\",\"age\","
     "\"hobbies\"]}",
     "{\n  \"name\": \"Ada Lovelace of London\",\n  \"age\": 36,\n  \"hobbies\": [\n    \"writing letters\",\n    \"long walks by the "
     "sea\"\n  ]\n}"},
    {"schema, free strings", CAIRN_GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"object\",\"properties\":{\"title\":{\"type\":\"string\"},\"text\":{\"type\":\"string\"}},\"required\":[\"title\","
     "\"text\"]}",
     "{ \"title\": \"A short story\", \"text\": \"Once upon a time there was a model that wrote only what it was allowed to write.\" }"},
    {"any JSON", CAIRN_GRAMMAR_JSON, "", "{\"a\": [1, 2.5, {\"b\": \"some text here\"}, null, true], \"c\": {\"d\": [[], {}]}}"},
    {"regular expression", CAIRN_GRAMMAR_REGEX, "(yes|no), because .{10,80}\\.",
     "yes, because the light of the sun is scattered by the air."},
};

static void need(cairn_status status) {
  if (status == CAIRN_OK) return;
  fprintf(stderr, "%s\n", cairn_last_error()->message);
  exit(1);
}

static cairn_grammar_source source_of(const subject *s) {
  return (cairn_grammar_source){.kind = s->kind, .text = s->grammar, .text_bytes = strlen(s->grammar)};
}

// --- masks ------------------------------------------------------------------------------------------------------------------------

// Seconds a token, and the slowest.
static double walk(cairn_grammar *grammar, const int32_t *ids, size_t n, double *out_slowest) {
  const size_t n_words = ((size_t)cairn_grammar_vocab_size(grammar) + 31) / 32;
  uint32_t *words = malloc(n_words * sizeof *words);
  cairn_matcher *m;
  double sum = 0;
  *out_slowest = 0;
  need(cairn_matcher_create(grammar, NULL, 0, &m));
  for (size_t i = 0; i < n && words; i++) {
    bool accepted;
    const double start = bench_now();
    need(cairn_matcher_mask(m, words, n_words, NULL));
    const double took = bench_now() - start;
    sum += took;
    if (took > *out_slowest) *out_slowest = took;
    need(cairn_matcher_accept(m, ids[i], &accepted));
    if (!accepted) printf("token %zu of the document does not match\n", i);
  }
  cairn_matcher_destroy(m);
  free(words);
  return sum / (double)n;
}

static void measure_masks(cairn_context *context, cairn_tokenizer *tokenizer, int64_t width) {
  cairn_grammar_compiler *compiler;
  const double start = bench_now();
  need(cairn_grammar_compiler_create(context, tokenizer, width, &compiler));
  printf("vocabulary of %lld tokens, logits of %lld: read in %.1f ms\n", (long long)cairn_tokenizer_vocab_size(tokenizer), (long long)width,
         (bench_now() - start) * 1e3);
  printf("%-26s %10s %8s | %10s %10s | %10s %10s\n", "masks (us a token)", "compile", "tokens", "first", "slowest", "then", "slowest");
  for (size_t i = 0; i < sizeof SUBJECTS / sizeof *SUBJECTS; i++) {
    const subject *s = &SUBJECTS[i];
    const cairn_grammar_source source = source_of(s);
    int32_t ids[MAX_IDS];
    size_t n;
    double slowest, slowest_then;
    cairn_grammar *grammar;
    const double begin = bench_now();
    need(cairn_grammar_compile(compiler, &source, &grammar));
    const double compiled = bench_now() - begin;
    need(cairn_tokenizer_encode_whole(tokenizer, s->document, strlen(s->document), false, ids, MAX_IDS, &n));
    const double first = walk(grammar, ids, n, &slowest), then = walk(grammar, ids, n, &slowest_then);
    printf("%-26s %7.2f ms %8zu | %10.0f %10.0f | %10.0f %10.0f\n", s->name, compiled * 1e3, n, first * 1e6, slowest * 1e6, then * 1e6,
           slowest_then * 1e6);
    cairn_grammar_release(grammar);
  }
  cairn_grammar_compiler_release(compiler);
}

// --- generations ------------------------------------------------------------------------------------------------------------------

static int compare(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *values, int n) {
  qsort(values, (size_t)n, sizeof *values, compare);
  return values[n / 2];
}

// A text that never ends by itself, so that both arms generate as many tokens.
static double generate(cairn_llm *llm, const cairn_grammar_source *guide, double *out_mask, double *out_wait) {
  cairn_generate_options o = {.text = "Write.", .text_bytes = 6, .form = CAIRN_PROMPT_RAW, .max_tokens = TOKENS, .ignore_eos = true};
  cairn_generation *g;
  cairn_generation_info info;
  if (guide) o.guide = *guide;
  need(cairn_llm_reset(llm, 0));
  need(cairn_llm_generate(llm, &o, &g));
  cairn_generation_get(g, &info);
  const double seconds = info.decode_tokens ? info.decode_seconds / (double)info.decode_tokens : 0;
  *out_mask = info.n_tokens ? info.mask_seconds / (double)info.n_tokens : 0;
  *out_wait = info.n_tokens ? info.mask_wait_seconds / (double)info.n_tokens : 0;
  cairn_generation_destroy(g);
  return seconds;
}

static void measure_generations(cairn_llm *llm, int rounds) {
  static const subject LONG[] = {
      {"array of free strings", CAIRN_GRAMMAR_JSON_SCHEMA, "{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"minItems\":200}", NULL},
      {"array of bounded strings", CAIRN_GRAMMAR_JSON_SCHEMA,
       "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"minLength\":20,\"maxLength\":40},\"minItems\":200}", NULL},
      {"array of objects", CAIRN_GRAMMAR_JSON_SCHEMA,
       "{\"type\":\"array\",\"minItems\":200,\"items\":{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"integer\",\"minimum\":0,"
       "\"maximum\":9999},"
       "\"ok\":{\"type\":\"boolean\"}},\"required\":[\"id\",\"ok\"]}}",
       NULL},
  };
  printf("\n%-26s %12s %12s %10s | %10s %10s\n", "decoding (ms a token)", "without", "guided", "overhead", "mask us", "wait us");
  for (size_t i = 0; i < sizeof LONG / sizeof *LONG; i++) {
    const cairn_grammar_source source = source_of(&LONG[i]);
    double plain[MAX_ROUNDS], guided[MAX_ROUNDS], masks[MAX_ROUNDS], waits[MAX_ROUNDS], unused;
    generate(llm, &source, &unused, &unused);  // what is met for the first time
    for (int k = 0; k < rounds; k++) {
      plain[k] = generate(llm, NULL, &unused, &unused);
      guided[k] = generate(llm, &source, &masks[k], &waits[k]);
    }
    const double a = median(plain, rounds), b = median(guided, rounds);
    printf("%-26s %12.3f %12.3f %9.1f%% | %10.0f %10.0f\n", LONG[i].name, a * 1e3, b * 1e3, (b / a - 1) * 100, median(masks, rounds) * 1e6,
           median(waits, rounds) * 1e6);
  }
}

int main(int argc, char **argv) {
  cairn_context *context;
  cairn_llm *llm;
  cairn_llm_info info;
  double load = 0;
  const int rounds = argc > 2 ? atoi(argv[2]) : 7;
  if (argc < 2 || rounds < 1 || rounds > MAX_ROUNDS) {
    fprintf(stderr, "usage: bench_guided MODEL [rounds, 1 to %d]\n", MAX_ROUNDS);
    return 64;
  }
  FILE *f = fopen("/proc/loadavg", "r");
  if (f && fscanf(f, "%lf", &load) != 1) load = 0;
  if (f) fclose(f);
  need(cairn_context_create(NULL, &context));
  need(cairn_llm_open(context, argv[1], NULL, &llm));
  cairn_llm_describe(llm, &info);
  printf("%s, engine %s, precision %s, load %.2f\n", info.name, info.engine, info.precision, load);
  measure_masks(context, cairn_llm_tokenizer(llm), info.vocab_size);
  measure_generations(llm, rounds);
  cairn_llm_close(llm);
  cairn_context_release(context);
  return 0;
}
