/// What a fuzzer does with a tokenizer that loaded: any text and any ids must be survived, streamed pieces must add up to the
/// decoded text, and the places of tokens must lie inside of the text.
#ifndef CAIRN_TESTS_FUZZ_USE_TOKENIZER_H
#define CAIRN_TESTS_FUZZ_USE_TOKENIZER_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cairn/tokenizer.h"

static void check(int condition) {
  if (!condition) abort();
}

// Streamed pieces must add up to the decoded text.
static void compare_streams(cairn_tokenizer *t, const int32_t *ids, size_t n, bool skip) {
  size_t whole, capacity = 1 << 16, at = 0, bytes;
  char *text = malloc(capacity);
  const char *piece;
  cairn_detokenizer *d = NULL;
  check(text != NULL);
  if (cairn_tokenizer_decode(t, ids, n, skip, text, capacity, &whole) == CAIRN_OK && whole <= capacity &&
      cairn_detokenizer_create(t, skip, &d) == CAIRN_OK) {
    for (size_t i = 0; i <= n; i++) {
      cairn_status status = i < n ? cairn_detokenizer_push(d, ids[i], &piece, &bytes) : cairn_detokenizer_finish(d, &piece, &bytes);
      if (status != CAIRN_OK) break;
      check(at + bytes <= whole && !memcmp(text + at, piece, bytes));
      at += bytes;
      if (i == n) check(at == whole);
    }
  }
  cairn_detokenizer_destroy(d);
  free(text);
}

// Both calls give the same ids, and the places lie inside of the text they name.
static void compare_offsets(cairn_tokenizer *t, const char *text, size_t bytes, const int32_t *ids, size_t n) {
  enum { CAPACITY = 4096 };
  static cairn_token_span spans[CAPACITY];
  size_t n_spans;
  check(cairn_tokenizer_encode_offsets(t, text, bytes, NULL, 0, false, spans, CAPACITY, &n_spans) == CAIRN_OK);
  check(n_spans == n);
  for (size_t i = 0; i < n && i < CAPACITY; i++) {
    check(spans[i].id == ids[i] && spans[i].begin <= bytes && spans[i].end <= bytes);
    if (spans[i].text == 0 && spans[i].begin < spans[i].end)
      check(cairn_token_spans_find(spans, n < CAPACITY ? n : CAPACITY, 0, spans[i].begin) <= i);
  }
}

static void use_tokenizer(cairn_tokenizer *t, const char *text, size_t bytes) {
  enum { CAPACITY = 4096 };
  static int32_t ids[CAPACITY], types[CAPACITY];
  size_t n;
  if (cairn_tokenizer_encode_pair(t, text, bytes, text, bytes / 2, true, ids, types, CAPACITY, &n) == CAIRN_OK) {
    compare_streams(t, ids, n < CAPACITY ? n : CAPACITY, false);
  }
  if (cairn_tokenizer_encode(t, text, bytes, false, ids, CAPACITY, &n) == CAIRN_OK) {
    compare_offsets(t, text, bytes, ids, n);
    compare_streams(t, ids, n < CAPACITY ? n : CAPACITY, true);
  }
  size_t n_raw = bytes < 64 ? bytes : 64;
  for (size_t i = 0; i < n_raw; i++) ids[i] = (unsigned char)text[i] - 2;
  compare_streams(t, ids, n_raw, false);
}

static inline cairn_context *fuzz_context(void) {
  static cairn_context *context;
  if (context) return context;
  cairn_context_options options;
  cairn_context_options_initialize(&options);
  options.n_threads = 1;
  options.log_level = CAIRN_LOG_OFF;
  check(cairn_context_create(&options, &context) == CAIRN_OK);
  return context;
}

#endif
