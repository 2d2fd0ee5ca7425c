/// Prompt lookup: what followed the last time the sequence looked as it does now.
#include <string.h>

#include "base/checked.h"
#include "engines/llm/draft.h"

enum { LENGTHS = CRN_NGRAM_MOST - CRN_NGRAM_LEAST + 1, LEAST_SLOTS = 1 << 10, MOST_SLOTS = 1 << 18, LONGEST_MATCH = 16 };

void crn_ngram_initialize(crn_ngram_index *x, const cairn_allocator *allocator) { *x = (crn_ngram_index){.allocator = allocator}; }

static size_t bytes_of(int64_t n_slots) { return (size_t)n_slots * LENGTHS * sizeof(int32_t); }

void crn_ngram_deinitialize(crn_ngram_index *x) {
  crn_free(x->allocator, x->places, bytes_of(x->n_slots));
  crn_ngram_initialize(x, x->allocator);
}

cairn_status crn_ngram_begin(crn_ngram_index *x, int64_t n) {
  int64_t n_slots = LEAST_SLOTS;
  while (n_slots < MOST_SLOTS && n_slots < 2 * n) n_slots *= 2;
  if (n_slots > x->n_slots) {
    int32_t *fresh;
    CRN_TRY(crn_alloc_array(x->allocator, (size_t)n_slots * LENGTHS, sizeof *fresh, &fresh));
    crn_ngram_deinitialize(x);
    x->places = fresh;
    x->n_slots = n_slots;
  }
  memset(x->places, 0, bytes_of(x->n_slots));
  x->n = x->found = 0;
  return CAIRN_OK;
}

// The place of the run of `length` tokens that ends before `end`.
static int32_t *slot_of(const crn_ngram_index *x, const int32_t *tokens, int64_t end, int64_t length) {
  uint64_t h = (uint64_t)length;
  for (int64_t i = end - length; i < end; i++) h = (h ^ (uint32_t)tokens[i]) * 0x9e3779b97f4a7c15u;
  h ^= h >> 29;
  return &x->places[(length - CRN_NGRAM_LEAST) * x->n_slots + (int64_t)((h >> 7) & (uint64_t)(x->n_slots - 1))];
}

// Takes up the runs that end before `n`. Those that end behind a place the sequence was cut back to are taken up again.
static void take_up(crn_ngram_index *x, const int32_t *tokens, int64_t n) {
  for (int64_t end = x->n < n ? x->n + 1 : n + 1; end <= n; end++) {
    for (int64_t length = CRN_NGRAM_LEAST; length <= CRN_NGRAM_MOST && length <= end; length++)
      *slot_of(x, tokens, end, length) = (int32_t)end;
  }
  x->n = n;
}

static bool agree(const int32_t *tokens, int64_t a, int64_t b, int64_t length) {
  return memcmp(tokens + a - length, tokens + b - length, (size_t)length * sizeof *tokens) == 0;
}

int64_t crn_ngram_look(crn_ngram_index *x, const int32_t *tokens, int64_t n) {
  x->found = 0;
  if (n > INT32_MAX) return 0;
  take_up(x, tokens, n - 1);
  for (int64_t length = CRN_NGRAM_MOST; length >= CRN_NGRAM_LEAST; length--) {
    if (length >= n) continue;
    const int64_t place = *slot_of(x, tokens, n, length);
    // A place behind the end is one of a sequence that was cut back.
    if (place < length || place >= n || !agree(tokens, place, n, length)) continue;
    x->found = place;
    while (length < LONGEST_MATCH && length < place && tokens[place - length - 1] == tokens[n - length - 1]) length++;
    return length;
  }
  return 0;
}

int64_t crn_ngram_copy(const crn_ngram_index *x, const int32_t *tokens, int64_t n, int64_t most, int32_t *out_tokens) {
  for (int64_t i = 0; i < most; i++) {
    const int64_t at = x->found + i;
    out_tokens[i] = at < n ? tokens[at] : out_tokens[at - n];
  }
  return most;
}

// --- as a source ------------------------------------------------------------------------------------------------------

static bool look(void *user, const int32_t *tokens, int64_t n, crn_draft_class *out_class) {
  const int64_t length = crn_ngram_look(user, tokens, n);
  *out_class = length >= 16  ? CRN_DRAFT_LOOKUP_16
               : length >= 8 ? CRN_DRAFT_LOOKUP_8
               : length >= 4 ? CRN_DRAFT_LOOKUP_4
               : length == 3 ? CRN_DRAFT_LOOKUP_3
                             : CRN_DRAFT_LOOKUP_2;
  return length > 0;
}

static cairn_status propose(void *user, const int32_t *tokens, int64_t n, int64_t most, int32_t *out_tokens, int64_t *out_n) {
  *out_n = crn_ngram_copy(user, tokens, n, most, out_tokens);
  return CAIRN_OK;
}

crn_draft_source crn_ngram_source(crn_ngram_index *x) {
  return (crn_draft_source){.name = "lookup", .user = x, .look = look, .propose = propose};
}
