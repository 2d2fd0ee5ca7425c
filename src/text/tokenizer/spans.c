// Where tokens come from: the bytes of a text each of them stands for.
#include "text/tokenizer/internal.h"
#include "text/tokenizer/unicode.h"

// White space as the byte-level alphabet and Unicode write it.
static bool is_blank(uint32_t code) { return code == 0x120 || crn_is_whitespace(code); }

static uint32_t count_lead(crn_view value, size_t *out_end) {
  uint32_t n = 0, code;
  size_t at = 0;
  for (; at < value.bytes; n++) {
    size_t used = (size_t)crn_code_at(value.text + at, &code);
    if (!is_blank(code)) break;
    at += used;
  }
  *out_end = at;
  return n;
}

// Of a token that is not white space altogether.
static uint32_t count_trail(crn_view value) {
  uint32_t n = 0, code;
  for (size_t at = value.bytes; at > 0; n++) {
    do at--;
    while (((unsigned char)value.text[at] & 0xc0) == 0x80);
    crn_code_at(value.text + at, &code);
    if (!is_blank(code)) break;
  }
  return n;
}

static cairn_status put(crn_run *run, uint32_t begin, uint32_t end, crn_view value) {
  size_t lead_end = 0;
  crn_span span = {.begin = begin, .end = end};
  if (value.text) {
    span.lead = count_lead(value, &lead_end);
    // White space alone is both.
    span.trail = lead_end == value.bytes ? span.lead : count_trail(value);
  }
  return crn_vec_push(run->allocator, run->spans, span);
}

cairn_status crn_run_push_value(crn_run *run, int32_t id, size_t begin, size_t end, crn_view value) {
  CRN_TRY(crn_run_push(run, id));
  if (!run->spans) return CAIRN_OK;
  const crn_piece *p = &run->piece;
  // What a model counts beyond its piece (an end-of-word suffix written in bytes) has no place of its own.
  if (end > p->end - p->begin) end = p->end - p->begin;
  if (begin > end) begin = end;
  const crn_origin *origins = run->text.origins.items + p->begin;
  if (begin == end) {
    uint32_t at = begin ? origins[begin - 1].end : p->begin < p->end ? origins[0].begin : p->shift;
    return put(run, at, at, value);
  }
  return put(run, origins[begin].begin, origins[end - 1].end, value);
}

void crn_run_extend(crn_run *run, size_t end) {
  if (!run->spans || !run->spans->size) return;
  const crn_piece *p = &run->piece;
  run->spans->items[run->spans->size - 1].end = run->text.origins.items[p->begin + end - 1].end;
}

cairn_status crn_run_push_part(crn_run *run, int32_t id, size_t begin, size_t end) {
  const crn_vocab *v = &run->tokenizer->vocab;
  return crn_run_push_value(run, id, begin, end, id >= 0 && id < v->n_ids ? v->tokens[id] : (crn_view){0});
}

cairn_status crn_run_push_added(crn_run *run, const crn_text *text, crn_stretch s, int32_t id) {
  CRN_TRY(crn_run_push(run, id));
  if (!run->spans) return CAIRN_OK;
  crn_view value = {text->bytes.data + s.begin, s.end - s.begin};
  return put(run, text->origins.items[s.begin].begin, text->origins.items[s.end - 1].end, value);
}

// `n` characters on from `at`, at most up to `end`.
static uint32_t step_on(crn_view text, uint32_t at, uint32_t n, uint32_t end) {
  while (n-- > 0 && at < end && at < text.bytes) at += (uint32_t)crn_code_bytes((unsigned char)text.text[at]);
  return at < end ? at : end;
}

// `n` characters back from `at`, at least to `begin`. A place that has fewer characters before it stays as it is.
static uint32_t step_back(crn_view text, uint32_t at, uint32_t n, uint32_t begin) {
  uint32_t to = at;
  for (; n > 0; n--) {
    if (to == 0) return at;
    do to--;
    while (to && ((unsigned char)text.text[to] & 0xc0) == 0x80);
  }
  return to > begin ? to : begin;
}

void crn_spans_trim(crn_encoding *e, const crn_view *texts, bool add_prefix) {
  if (!e->spanned) return;
  for (size_t i = 0; i < e->spans.size; i++) {
    crn_span *s = &e->spans.items[i];
    if (s->text < 0) continue;
    crn_view text = texts[s->text];
    uint32_t lead = s->lead;
    // One space at the front may be the one that was put there, and it has no place; more than one were written.
    if (lead == 1 && add_prefix && (i == 0 || s->begin == 0)) lead = 0;
    s->begin = step_on(text, s->begin, lead, s->end);
    if (s->trail) s->end = step_back(text, s->end, s->trail, s->begin);
  }
}
