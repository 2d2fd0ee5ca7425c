#include "engines/llm/stop_texts.h"

#include <string.h>

cairn_status crn_stop_texts_initialize(crn_stop_texts *s, const cairn_allocator *allocator, const char *const *texts, int n) {
  *s = (crn_stop_texts){.texts = texts, .n = n};
  crn_str_initialize(&s->pending, allocator);
  for (int i = 0; i < n; i++) {
    if (!texts[i] || !*texts[i]) return CRN_FAIL(INVALID_ARGUMENT, "stop text %d is empty", i);
  }
  return CAIRN_OK;
}

void crn_stop_texts_deinitialize(crn_stop_texts *s) { crn_str_deinitialize(&s->pending); }

// The stop text that is complete first, the longest of several that end at one place; its start in `*out_at`. So the
// result does not depend on how the text was cut into tokens.
static int find_match(const crn_stop_texts *s, size_t *out_at) {
  int match = -1;
  size_t at = 0, end = 0;
  for (int i = 0; i < s->n; i++) {
    size_t n = strlen(s->texts[i]);
    const char *found = memmem(s->pending.data, s->pending.size, s->texts[i], n);
    if (!found) continue;
    size_t place = (size_t)(found - s->pending.data);
    if (match < 0 || place + n < end || (place + n == end && place < at)) {
      match = i;
      at = place;
      end = place + n;
    }
  }
  *out_at = at;
  return match;
}

// Bytes at the end of the pending text that a stop text could begin with.
static size_t held_back(const crn_stop_texts *s) {
  size_t most = 0, have = s->pending.size;
  for (int i = 0; i < s->n; i++) {
    size_t n = strlen(s->texts[i]) - 1;
    if (n > have) n = have;
    while (n > most && memcmp(s->pending.data + have - n, s->texts[i], n) != 0) n--;
    if (n > most) most = n;
  }
  return most;
}

static cairn_status give(crn_stop_texts *s, size_t n, crn_str *out) {
  CRN_TRY(crn_str_append(out, s->pending.data, n));
  if (!n) return CAIRN_OK;
  s->pending.size -= n;
  memmove(s->pending.data, s->pending.data + n, s->pending.size + 1);
  return CAIRN_OK;
}

cairn_status crn_stop_texts_push(crn_stop_texts *s, const char *text, size_t bytes, crn_str *out, int *out_match) {
  *out_match = -1;
  if (s->n == 0) return crn_str_append(out, text, bytes);
  CRN_TRY(crn_str_append(&s->pending, text, bytes));
  size_t at;
  int match = find_match(s, &at);
  CRN_TRY(give(s, match < 0 ? s->pending.size - held_back(s) : at, out));
  if (match >= 0) crn_str_clear(&s->pending);
  *out_match = match;
  return CAIRN_OK;
}

cairn_status crn_stop_texts_flush(crn_stop_texts *s, crn_str *out) { return give(s, s->pending.size, out); }
