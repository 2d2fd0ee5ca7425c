/// What the tokenizer tests share: reading cases, encoding and decoding into buffers that fit.
#ifndef CRN_TEXT_TOKENIZER_TEST_SUPPORT_H
#define CRN_TEXT_TOKENIZER_TEST_SUPPORT_H

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// cmocka wants the headers above first.
#include <cmocka.h>

#include "cairn/tokenizer.h"

enum { TEST_MAX_IDS = 1 << 16, TEST_MAX_BYTES = 1 << 18 };

typedef struct test_ids {
  int32_t ids[TEST_MAX_IDS], types[TEST_MAX_IDS];
  size_t n;
} test_ids;

static inline cairn_context *test_context(void) {
  cairn_context_options options;
  cairn_context *context;
  cairn_context_options_initialize(&options);
  options.n_threads = 1;
  assert_int_equal(cairn_context_create(&options, &context), CAIRN_OK);
  return context;
}

static inline bool test_file_exists(const char *path) {
  FILE *f = fopen(path, "rb");
  if (f) fclose(f);
  return f != NULL;
}

/// Texts of the cases may hold NUL characters.
static inline json_t *test_json_file(const char *path) {
  json_error_t error;
  json_t *json = json_load_file(path, JSON_ALLOW_NUL, &error);
  if (!json) fail_msg("%s: %s", path, error.text);
  return json;
}

static inline void test_read_ids(const json_t *list, test_ids *out) {
  out->n = json_array_size(list);
  assert_true(out->n <= TEST_MAX_IDS);
  for (size_t i = 0; i < out->n; i++) out->ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
}

static inline bool test_same_ids(const int32_t *got, size_t n, const json_t *want) {
  if (n != json_array_size(want)) return false;
  for (size_t i = 0; i < n; i++) {
    if (got[i] != json_integer_value(json_array_get(want, i))) return false;
  }
  return true;
}

static inline bool test_decodes_to(const cairn_tokenizer *t, const test_ids *ids, bool skip, const json_t *want) {
  static char text[TEST_MAX_BYTES];
  size_t n;
  if (!json_is_string(want)) return true;
  assert_int_equal(cairn_tokenizer_decode(t, ids->ids, ids->n, skip, text, sizeof text, &n), CAIRN_OK);
  return n == json_string_length(want) && !memcmp(text, json_string_value(want), n);
}

/// Streams the ids and compares the pieces put together with the text; every piece must be whole characters.
static inline bool test_streams_to(cairn_tokenizer *t, const test_ids *ids, bool skip, const json_t *want) {
  static char text[TEST_MAX_BYTES];
  cairn_detokenizer *d;
  const char *piece;
  size_t bytes, n = 0;
  if (!json_is_string(want)) return true;
  assert_int_equal(cairn_detokenizer_create(t, skip, &d), CAIRN_OK);
  for (size_t i = 0; i <= ids->n; i++) {
    cairn_status status = i < ids->n ? cairn_detokenizer_push(d, ids->ids[i], &piece, &bytes) : cairn_detokenizer_finish(d, &piece, &bytes);
    assert_int_equal(status, CAIRN_OK);
    if (bytes) assert_true(((unsigned char)piece[0] & 0xc0) != 0x80);
    assert_true(n + bytes <= sizeof text);
    memcpy(text + n, piece, bytes);
    n += bytes;
  }
  cairn_detokenizer_destroy(d);
  return n == json_string_length(want) && !memcmp(text, json_string_value(want), n);
}

static inline cairn_tokenizer *test_tokenizer_from(cairn_context *context, const char *json) {
  cairn_tokenizer *t = NULL;
  cairn_status status = cairn_tokenizer_create_from_json(context, json, strlen(json), "test", &t);
  if (status != CAIRN_OK) fail_msg("%s", cairn_last_error()->message);
  return t;
}

#endif
