// Whatever a model writes, the cuts of the stream must not matter, arguments must be JSON, and nothing may be lost.
//
// Input: a byte for the format, one for options and the cuts, then the text.
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cairn/dialogue.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_CALLS = 16, MAX_TEXT = 1 << 15 };

static void check(int condition) {
  if (!condition) abort();
}

// What the events add up to.
typedef struct heard {
  char content[MAX_TEXT], reasoning[MAX_TEXT], arguments[MAX_TEXT];
  size_t n_content, n_reasoning, n_arguments;  // arguments: of all complete calls
  size_t n_before;                             // of the calls before the open one
  int n_calls, is_open;
} heard;

static void append(char *out, size_t *n, const cairn_dialogue_event *e) {
  check(*n + e->text_bytes <= MAX_TEXT);
  memcpy(out + *n, e->text, e->text_bytes);
  *n += e->text_bytes;
}

static void hear(void *user, const cairn_dialogue_event *e) {
  heard *h = user;
  switch (e->kind) {
    case CAIRN_DIALOGUE_CONTENT:
      append(h->content, &h->n_content, e);
      break;
    case CAIRN_DIALOGUE_REASONING:
      append(h->reasoning, &h->n_reasoning, e);
      break;
    case CAIRN_DIALOGUE_TOOL_BEGIN:
      check(!h->is_open && e->index == h->n_calls && e->name && *e->name);
      h->is_open = 1;
      h->n_before = h->n_arguments;
      break;
    case CAIRN_DIALOGUE_TOOL_ARGUMENTS:
      check(h->is_open && e->index == h->n_calls);
      append(h->arguments, &h->n_arguments, e);
      break;
    case CAIRN_DIALOGUE_TOOL_END:
      check(h->is_open && e->index == h->n_calls);
      h->is_open = 0;
      h->n_calls++;
      break;
    case CAIRN_DIALOGUE_TOOL_CANCEL:
      check(h->is_open && e->index == h->n_calls);
      h->is_open = 0;
      h->n_arguments = h->n_before;
      break;
  }
}

static void check_result(const cairn_dialogue *d, const heard *h, cairn_dialogue_result *r) {
  size_t n = 0;
  cairn_dialogue_get(d, r);
  check(r->content_bytes == h->n_content && !memcmp(r->content, h->content, h->n_content));
  check(r->reasoning_bytes == h->n_reasoning && !memcmp(r->reasoning, h->reasoning, h->n_reasoning));
  check(r->n_calls == h->n_calls && !h->is_open && r->n_calls <= MAX_CALLS);
  check(r->n_malformed <= r->n_warnings);
  for (int i = 0; i < r->n_calls; i++) {
    const cairn_dialogue_call *c = &r->calls[i];
    json_error_t e;
    json_t *json = json_loadb(c->arguments, c->arguments_bytes, JSON_DECODE_ANY | JSON_ALLOW_NUL, &e);
    // Numbers can be larger than jansson's, and keys may hold NUL, which it does not take; everything else must be readable.
    check(json || json_error_code(&e) == json_error_numeric_overflow || json_error_code(&e) == json_error_null_byte_in_key);
    json_decref(json);
    check(n + c->arguments_bytes <= h->n_arguments && !memcmp(c->arguments, h->arguments + n, c->arguments_bytes));
    n += c->arguments_bytes;
  }
  check(n == h->n_arguments);
}

static cairn_status run(cairn_context *context, const uint8_t *data, size_t size, int by_pieces, heard *h, cairn_dialogue_result *r,
                        cairn_dialogue **out) {
  static const char kTools[] =
      "[{\"name\":\"f\",\"parameters\":{\"properties\":{\"s\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\"}}}}]";
  uint32_t step = data[1] | 1u;
  const cairn_dialogue_options o = {.format = (cairn_dialogue_format)(data[0] % (CAIRN_DIALOGUE_AGENTIC + 1)),
                                    .trim = (data[1] & 1) != 0,
                                    .tools = data[1] & 2 ? kTools : NULL,
                                    .tools_bytes = data[1] & 2 ? sizeof kTools - 1 : 0,
                                    .starts_in_reasoning = (data[1] & 4) != 0,
                                    .max_call_bytes = 4096,
                                    .max_depth = 8,
                                    .max_calls = MAX_CALLS,
                                    .on_event = hear,
                                    .user = h};
  h->n_content = h->n_reasoning = h->n_arguments = h->n_before = 0;
  h->n_calls = h->is_open = 0;
  check(cairn_dialogue_create(context, &o, out) == CAIRN_OK);
  cairn_status status = CAIRN_OK;
  for (size_t i = 2; i < size && status == CAIRN_OK;) {
    size_t n = by_pieces ? 1 + (step >> 13) % 7 : size - i;
    if (n > size - i) n = size - i;
    status = cairn_dialogue_push(*out, (const char *)data + i, n);
    step = step * 1664525u + 1013904223u;
    i += n;
  }
  if (status == CAIRN_OK) status = cairn_dialogue_finish(*out);
  if (status == CAIRN_OK) check_result(*out, h, r);
  return status;
}

static void compare(const cairn_dialogue_result *a, const cairn_dialogue_result *b) {
  check(a->content_bytes == b->content_bytes && !memcmp(a->content, b->content, a->content_bytes));
  check(a->reasoning_bytes == b->reasoning_bytes && !memcmp(a->reasoning, b->reasoning, a->reasoning_bytes));
  check(a->n_calls == b->n_calls && a->n_malformed == b->n_malformed && a->n_warnings == b->n_warnings);
  for (int i = 0; i < a->n_calls; i++) {
    check(!strcmp(a->calls[i].name, b->calls[i].name) && !strcmp(a->calls[i].arguments, b->calls[i].arguments));
    check(!a->calls[i].id == !b->calls[i].id && (!a->calls[i].id || !strcmp(a->calls[i].id, b->calls[i].id)));
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static cairn_context *context;
  static heard whole, pieces;
  cairn_dialogue *a, *b;
  cairn_dialogue_result ra, rb;
  if (!context) {
    cairn_context_options options;
    cairn_context_options_initialize(&options);
    options.n_threads = 1;
    options.log_level = CAIRN_LOG_OFF;
    check(cairn_context_create(&options, &context) == CAIRN_OK);
  }
  if (size < 2 || size > MAX_TEXT / 8) return 0;
  cairn_status one = run(context, data, size, 0, &whole, &ra, &a), other = run(context, data, size, 1, &pieces, &rb, &b);
  check(one == other && (one == CAIRN_OK || one == CAIRN_OUT_OF_RANGE));
  if (one == CAIRN_OK) {
    compare(&ra, &rb);
    // No text is made up, and none is lost where there is nothing but text.
    int has_markers = memchr(data + 2, '<', size - 2) || memchr(data + 2, '[', size - 2) || memchr(data + 2, '{', size - 2);
    has_markers = has_markers || memchr(data + 2, '`', size - 2) || memchr(data + 2, '=', size - 2);
    size_t n = ra.content_bytes + ra.reasoning_bytes;
    if (!has_markers && !(data[1] & 1)) check(n == size - 2 && !memcmp(data + 2, n == ra.content_bytes ? ra.content : ra.reasoning, n));
    check((data[1] & 1) || n <= size - 2);
  }
  cairn_dialogue_destroy(a);
  cairn_dialogue_destroy(b);
  return 0;
}
