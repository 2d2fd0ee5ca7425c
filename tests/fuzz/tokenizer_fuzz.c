// A damaged or hostile tokenizer.json must give a status, and a tokenizer that loads must survive any text and any ids.
//
// Input: the text of a tokenizer.json up to the first byte 0xff (which no UTF-8 holds), then the text to encode. Without
// such a byte the last quarter is the text.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cairn/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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

static void use(cairn_tokenizer *t, const char *text, size_t bytes) {
  enum { CAPACITY = 4096 };
  static int32_t ids[CAPACITY], types[CAPACITY];
  size_t n;
  if (cairn_tokenizer_encode_pair(t, text, bytes, text, bytes / 2, true, ids, types, CAPACITY, &n) == CAIRN_OK) {
    compare_streams(t, ids, n < CAPACITY ? n : CAPACITY, false);
  }
  if (cairn_tokenizer_encode(t, text, bytes, false, ids, CAPACITY, &n) == CAIRN_OK)
    compare_streams(t, ids, n < CAPACITY ? n : CAPACITY, true);
  size_t n_raw = bytes < 64 ? bytes : 64;
  for (size_t i = 0; i < n_raw; i++) ids[i] = (unsigned char)text[i] - 2;
  compare_streams(t, ids, n_raw, false);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static cairn_context *context;
  cairn_tokenizer *t;
  if (!context) {
    cairn_context_options options;
    cairn_context_options_initialize(&options);
    options.n_threads = 1;
    options.log_level = CAIRN_LOG_OFF;
    check(cairn_context_create(&options, &context) == CAIRN_OK);
  }
  const uint8_t *mark = size ? memchr(data, 0xff, size) : NULL;
  size_t json_bytes = mark ? (size_t)(mark - data) : size - size / 4;
  size_t skip = mark ? 1 : 0;
  if (cairn_tokenizer_create_from_json(context, (const char *)data, json_bytes, "fuzz", &t) != CAIRN_OK) return 0;
  use(t, (const char *)data + json_bytes + skip, size - json_bytes - skip);
  cairn_tokenizer_release(t);
  return 0;
}
