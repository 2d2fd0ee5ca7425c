// The texts of one call of encode, and what is recorded about where tokens come from.
#include <string.h>

#include "text/tokenizer/internal.h"

void crn_inputs_initialize(const cairn_tokenizer *t, crn_input inputs[2]) {
  for (int i = 0; i < 2; i++) {
    inputs[i] = (crn_input){.text = {"", 0}};
    crn_str_initialize(&inputs[i].room, t->allocator);
  }
}

void crn_inputs_deinitialize(crn_input inputs[2]) {
  for (int i = 0; i < 2; i++) {
    crn_vec_free(inputs[i].room.allocator, &inputs[i].repairs);
    crn_str_deinitialize(&inputs[i].room);
  }
}

cairn_status crn_input_read(crn_input *in, const char *text, size_t bytes) {
  if (bytes > CRN_MAX_TEXT_BYTES) return CRN_FAIL(INVALID_ARGUMENT, "text of %zu bytes, at most %d expected", bytes, CRN_MAX_TEXT_BYTES);
  if (!text && bytes) return CRN_FAIL(INVALID_ARGUMENT, "text is NULL");
  const char *end = text + bytes, *copied = text;
  for (const char *p = text; p < end;) {
    if ((unsigned char)*p < 0x80) {
      p++;
      continue;
    }
    uint32_t code;
    bool valid;
    int n = crn_utf8_decode(p, end, &code, &valid);
    if (!valid) {
      CRN_TRY(crn_str_append(&in->room, copied, (size_t)(p - copied)));
      CRN_TRY(crn_str_append(&in->room, "\xef\xbf\xbd", 3));
      copied = p + n;
      CRN_TRY(crn_vec_push(in->room.allocator, &in->repairs, ((crn_repair){in->room.size, (size_t)(copied - text)})));
    }
    p += n;
  }
  if (copied == text) {
    if (bytes) in->text = (crn_view){text, bytes};
    return CAIRN_OK;
  }
  CRN_TRY(crn_str_append(&in->room, copied, (size_t)(end - copied)));
  in->text = (crn_view){in->room.data, in->room.size};
  // Three bytes stand for as few as one, so the text may have grown beyond the bound.
  return crn_text_check_size(in->text.bytes);
}

size_t crn_input_place(const crn_input *in, size_t at) {
  size_t low = 0, high = in->repairs.size;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (in->repairs.items[middle].clean <= at) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (!low) return at;
  const crn_repair *r = &in->repairs.items[low - 1];
  return r->given + (at - r->clean);
}

static cairn_status encode_one(crn_run *run, const crn_input *in, int32_t number, bool spanned, crn_encoding_vec *out) {
  CRN_TRY(crn_vec_push(run->allocator, out, ((crn_encoding){.spanned = spanned})));
  crn_encoding *e = &out->items[out->size - 1];
  if (spanned) crn_run_record(run, &e->spans);
  CRN_TRY(crn_run_encode(run, in->text.text, in->text.bytes, &e->ids));
  CRN_TRY(crn_vec_reserve(run->allocator, &e->types, e->ids.size));
  for (size_t i = 0; i < e->ids.size; i++) e->types.items[e->types.size++] = number;
  for (size_t i = 0; i < e->spans.size; i++) e->spans.items[i].text = number;
  return CAIRN_OK;
}

cairn_status crn_inputs_encode(const cairn_tokenizer *t, const crn_input inputs[2], size_t n, int flags, crn_encoding_vec *out) {
  const crn_view texts[2] = {inputs[0].text, inputs[1].text};
  crn_run run;
  cairn_status status;
  CRN_TRY_GOTO(crn_run_initialize(&run, t));
  for (size_t i = 0; i < n; i++) CRN_TRY_GOTO(encode_one(&run, &inputs[i], (int32_t)i, (flags & CRN_ENCODE_SPANS) != 0, out));
  status = crn_postprocess(t, texts, out, flags);
done:
  crn_run_deinitialize(&run);
  return status;
}

cairn_status cairn_tokenizer_encode_offsets(const cairn_tokenizer *t, const char *text, size_t text_bytes, const char *pair,
                                            size_t pair_bytes, bool add_special_tokens, cairn_token_span *out_spans, size_t capacity,
                                            size_t *out_count) {
  CRN_REQUIRE_NAMED(t, "tokenizer");
  crn_encoding_vec encodings = {0};
  crn_input inputs[2];
  cairn_status status;
  if (!out_count || (capacity && !out_spans)) return CRN_FAIL(INVALID_ARGUMENT, "no place for the tokens");
  *out_count = 0;
  crn_inputs_initialize(t, inputs);
  CRN_TRY_GOTO(crn_input_read(&inputs[0], text, text_bytes));
  if (pair) CRN_TRY_GOTO(crn_input_read(&inputs[1], pair, pair_bytes));
  CRN_TRY_GOTO(crn_inputs_encode(t, inputs, pair ? 2 : 1, CRN_ENCODE_SPANS | (add_special_tokens ? CRN_ENCODE_SPECIAL : 0), &encodings));
  const crn_encoding *e = &encodings.items[0];
  for (size_t i = 0; i < e->ids.size && i < capacity; i++) {
    const crn_span *s = &e->spans.items[i];
    cairn_token_span *out = &out_spans[i];
    *out = (cairn_token_span){.id = e->ids.items[i], .type_id = e->types.items[i], .text = s->text};
    if (s->text < 0) continue;
    out->begin = crn_input_place(&inputs[s->text], s->begin);
    out->end = crn_input_place(&inputs[s->text], s->end);
  }
  *out_count = e->ids.size;
done:
  crn_encodings_free(t->allocator, &encodings);
  crn_inputs_deinitialize(inputs);
  return status;
}

size_t cairn_token_spans_find(const cairn_token_span *spans, size_t n_spans, int32_t text, size_t position) {
  if (!spans) return SIZE_MAX;
  for (size_t i = 0; i < n_spans; i++) {
    if (spans[i].text == text && spans[i].begin <= position && position < spans[i].end) return i;
  }
  return SIZE_MAX;
}
