// Random documents of a JSON Schema:  random_documents TOKENIZER COUNT SEED COMPACT <SCHEMA
//
// One line of JSON for each: {"document": text, "ended": whether it came to an end}. Tokens are drawn evenly from those that may follow,
// which leads to stranger documents than any model writes.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cairn/grammar.h"

enum { MOST_TOKENS = 400 };

static uint64_t next_random(uint64_t *s) {
  *s ^= *s << 13;
  *s ^= *s >> 7;
  return *s ^= *s << 17;
}

static int fail(void) {
  fprintf(stderr, "%s\n", cairn_last_error()->message);
  return 1;
}

// The number of an allowed token, the stop id with a chance of one in three.
static int32_t draw(const uint32_t *words, int64_t allowed, int32_t stop, uint64_t *seed) {
  if (words[stop / 32] >> stop % 32 & 1 && next_random(seed) % 3 == 0) return stop;
  int64_t left = (int64_t)(next_random(seed) % (uint64_t)allowed);
  for (int32_t id = 0;; id++) {
    if (words[id / 32] >> id % 32 & 1 && left-- == 0) return id;
  }
}

static cairn_status make_document(cairn_tokenizer *tokenizer, cairn_grammar *grammar, int32_t stop, uint64_t *seed, crn_str *text,
                                  bool *ended) {
  const int64_t n = cairn_grammar_vocab_size(grammar);
  const size_t n_words = ((size_t)n + 31) / 32;
  uint32_t *words = calloc(n_words, sizeof *words);
  cairn_matcher *m = NULL;
  cairn_status status = words ? cairn_matcher_create(grammar, &stop, 1, &m) : CAIRN_OUT_OF_MEMORY;
  *ended = false;
  for (int i = 0; i < MOST_TOKENS && !*ended && status == CAIRN_OK; i++) {
    int64_t allowed;
    bool accepted;
    char bytes[256];
    size_t n_bytes;
    status = cairn_matcher_mask(m, words, n_words, &allowed);
    if (status != CAIRN_OK || !allowed) break;
    const int32_t id = draw(words, allowed, stop, seed);
    status = cairn_matcher_accept(m, id, &accepted);
    *ended = id == stop;
    if (!accepted || *ended) break;
    status = cairn_tokenizer_token_bytes(tokenizer, id, bytes, sizeof bytes, &n_bytes);
    if (status == CAIRN_OK) status = crn_str_append(text, bytes, n_bytes);
  }
  cairn_matcher_destroy(m);
  free(words);
  return status;
}

int main(int argc, char **argv) {
  cairn_context *context;
  cairn_tokenizer *tokenizer;
  cairn_grammar_compiler *compiler;
  cairn_grammar *grammar;
  static char schema[1 << 18];
  if (argc != 5) return 64;
  if (!cairn_grammar_is_available()) return 77;
  const size_t bytes = fread(schema, 1, sizeof schema, stdin);
  const cairn_grammar_source source = {
      .kind = CAIRN_GRAMMAR_JSON_SCHEMA, .text = schema, .text_bytes = bytes, .compact = atoi(argv[4]) != 0};
  if (cairn_context_create(NULL, &context) || cairn_tokenizer_open(context, argv[1], &tokenizer)) return fail();
  if (cairn_grammar_compiler_create(context, tokenizer, 0, &compiler) || cairn_grammar_compile(compiler, &source, &grammar)) return fail();
  const int32_t eos = cairn_tokenizer_id(tokenizer, "<eos>"), stop = eos >= 0 ? eos : cairn_tokenizer_id(tokenizer, "<|im_end|>");
  uint64_t seed = 88172645463325252u + strtoull(argv[3], NULL, 10);
  for (int i = 0; i < atoi(argv[2]); i++) {
    crn_str text, line;
    bool ended;
    crn_str_initialize(&text, NULL);
    crn_str_initialize(&line, NULL);
    if (make_document(tokenizer, grammar, stop, &seed, &text, &ended)) return fail();
    if (crn_str_json(&line, text.data, text.size)) return fail();
    printf("{\"document\":%s,\"ended\":%s}\n", line.data, ended ? "true" : "false");
    crn_str_deinitialize(&text);
    crn_str_deinitialize(&line);
  }
  cairn_grammar_release(grammar);
  cairn_grammar_compiler_release(compiler);
  cairn_tokenizer_release(tokenizer);
  cairn_context_release(context);
  return 0;
}
