// What happens to ids behind the model: truncation, special tokens around them, padding.
#include "text/tokenizer/postprocess.h"

#include <string.h>

#include "base/checked.h"

void crn_encodings_free(const cairn_allocator *allocator, crn_encoding_vec *encodings) {
  for (size_t i = 0; i < encodings->size; i++) {
    crn_vec_free(allocator, &encodings->items[i].ids);
    crn_vec_free(allocator, &encodings->items[i].types);
    crn_vec_free(allocator, &encodings->items[i].spans);
  }
  crn_vec_free(allocator, encodings);
}

// --- truncation ------------------------------------------------------------------------------------------------------

static cairn_status truncate_one(crn_encoding *e, size_t length, const crn_truncation *limit) {
  size_t n = e->ids.size;
  if (length >= n) return CAIRN_OK;
  if (length && limit->stride >= length) {
    return CRN_FAIL(FAILED_PRECONDITION, "truncation stride %zu must be smaller than the %zu tokens that remain", limit->stride, length);
  }
  if (limit->left) {
    memmove(e->ids.items, e->ids.items + (n - length), length * sizeof *e->ids.items);
    memmove(e->types.items, e->types.items + (n - length), length * sizeof *e->types.items);
    if (e->spanned) memmove(e->spans.items, e->spans.items + (n - length), length * sizeof *e->spans.items);
  }
  e->ids.size = e->types.size = length;
  if (e->spanned) e->spans.size = length;
  return CAIRN_OK;
}

static cairn_status truncate_longest(crn_encoding_vec *encodings, size_t max, const crn_truncation *limit) {
  if (encodings->size == 1) return truncate_one(&encodings->items[0], max, limit);
  size_t a = encodings->items[0].ids.size, b = encodings->items[1].ids.size;
  bool swapped = a > b;
  size_t shorter = swapped ? b : a, longer;
  if (shorter > max) {
    longer = shorter;
  } else {
    longer = max - shorter > shorter ? max - shorter : shorter;
  }
  if (shorter + longer > max) {
    shorter = max / 2;
    longer = shorter + max % 2;
  }
  CRN_TRY(truncate_one(&encodings->items[0], swapped ? longer : shorter, limit));
  return truncate_one(&encodings->items[1], swapped ? shorter : longer, limit);
}

static cairn_status truncate(crn_encoding_vec *encodings, size_t max, const crn_truncation *limit) {
  size_t total = 0;
  for (size_t i = 0; i < encodings->size; i++) total += encodings->items[i].ids.size;
  if (total <= max) return CAIRN_OK;
  if (max == 0) {
    for (size_t i = 0; i < encodings->size; i++) CRN_TRY(truncate_one(&encodings->items[i], 0, limit));
    return CAIRN_OK;
  }
  if (limit->strategy == CRN_TRUNCATE_LONGEST) return truncate_longest(encodings, max, limit);
  size_t index = limit->strategy == CRN_TRUNCATE_SECOND;
  if (index >= encodings->size) return CRN_FAIL(FAILED_PRECONDITION, "the tokenizer truncates the second text only, and there is none");
  crn_encoding *e = &encodings->items[index];
  size_t remove = total - max;
  if (e->ids.size <= remove) {
    return CRN_FAIL(FAILED_PRECONDITION, "the text to truncate has %zu tokens, too few to lose %zu", e->ids.size, remove);
  }
  return truncate_one(e, e->ids.size - remove, limit);
}

static size_t added_tokens(const cairn_tokenizer *t, bool pair) {
  size_t n = 0;
  for (size_t i = 0; i < t->n_processors; i++) {
    const crn_processor *p = &t->processors[i];
    if (p->kind == CRN_PROCESSOR_BERT) n += pair ? 3 : 2;
    if (p->kind == CRN_PROCESSOR_ROBERTA) n += pair ? 4 : 2;
    if (p->kind == CRN_PROCESSOR_TEMPLATE) n += pair ? p->pair_added : p->single_added;
  }
  return n;
}

static cairn_status apply_truncation(const cairn_tokenizer *t, crn_encoding_vec *encodings, bool add_special_tokens) {
  size_t max = t->truncation.max_length, added = added_tokens(t, encodings->size > 1);
  if (!t->truncation.active) return CAIRN_OK;
  // The reference lets the difference wrap around, which in effect turns the limit off.
  if (add_special_tokens && added) max = max >= added ? max - added : SIZE_MAX;
  return truncate(encodings, max, &t->truncation);
}

// --- special tokens ----------------------------------------------------------------------------------------------------

// Tokens that come from no text.
static cairn_status append(const cairn_allocator *a, crn_encoding *out, const int32_t *ids, size_t n, int32_t type) {
  CRN_TRY(crn_vec_reserve(a, &out->ids, n));
  CRN_TRY(crn_vec_reserve(a, &out->types, n));
  if (out->spanned) CRN_TRY(crn_vec_reserve(a, &out->spans, n));
  for (size_t i = 0; i < n; i++) {
    out->ids.items[out->ids.size++] = ids[i];
    out->types.items[out->types.size++] = type;
    if (out->spanned) out->spans.items[out->spans.size++] = (crn_span){.text = -1};
  }
  return CAIRN_OK;
}

static cairn_status append_encoding(const cairn_allocator *a, crn_encoding *out, const crn_encoding *in) {
  CRN_TRY(crn_vec_reserve(a, &out->ids, in->ids.size));
  CRN_TRY(crn_vec_reserve(a, &out->types, in->ids.size));
  if (out->spanned) CRN_TRY(crn_vec_reserve(a, &out->spans, in->ids.size));
  for (size_t i = 0; i < in->ids.size; i++) {
    out->ids.items[out->ids.size++] = in->ids.items[i];
    out->types.items[out->types.size++] = in->types.items[i];
    if (out->spanned) out->spans.items[out->spans.size++] = in->spans.items[i];
  }
  return CAIRN_OK;
}

// The first text is framed by cls and sep, every other one ends in sep; RoBERTa puts one more sep before those and knows
// only one type.
static cairn_status frame(const cairn_allocator *a, const crn_processor *p, size_t index, const crn_encoding *in, crn_encoding *out) {
  bool roberta = p->kind == CRN_PROCESSOR_ROBERTA;
  int32_t type = index && !roberta ? 1 : 0;
  if (index == 0) CRN_TRY(append(a, out, &p->cls, 1, 0));
  if (index && roberta) CRN_TRY(append(a, out, &p->sep, 1, 0));
  CRN_TRY(append_encoding(a, out, in));
  return append(a, out, &p->sep, 1, type);
}

static cairn_status run_frame(const cairn_allocator *a, const crn_processor *p, crn_encoding_vec *encodings, bool add_special_tokens) {
  for (size_t i = 0; i < encodings->size; i++) {
    crn_encoding *e = &encodings->items[i], out = {.spanned = encodings->items[i].spanned};
    for (size_t k = 0; p->kind == CRN_PROCESSOR_ROBERTA && k < e->types.size; k++) e->types.items[k] = 0;
    if (!add_special_tokens) continue;
    cairn_status status = frame(a, p, i, e, &out);
    crn_vec_free(a, &e->ids);
    crn_vec_free(a, &e->types);
    crn_vec_free(a, &e->spans);
    *e = out;
    CRN_TRY(status);
  }
  return CAIRN_OK;
}

static cairn_status run_part(const cairn_allocator *a, const crn_template_part *part, const crn_encoding_vec *in, crn_encoding *out) {
  if (part->sequence < 0) return append(a, out, part->ids, part->n_ids, part->type);
  CRN_TRY(append_encoding(a, out, &in->items[part->sequence]));
  for (size_t i = 0; i < out->types.size; i++) out->types.items[i] = part->type;
  return CAIRN_OK;
}

static cairn_status run_template(const cairn_allocator *a, const crn_processor *p, crn_encoding_vec *encodings, bool add_special_tokens) {
  if (encodings->size > 2) {
    return CRN_FAIL(FAILED_PRECONDITION, "a template processor behind another one got %zu parts, at most 2 expected", encodings->size);
  }
  bool pair = encodings->size == 2;
  const crn_template_part *parts = pair ? p->pair : p->single;
  size_t n = pair ? p->n_pair : p->n_single;
  crn_encoding_vec out = {0};
  cairn_status status = CAIRN_OK;
  for (size_t i = 0; i < n && status == CAIRN_OK; i++) {
    if (parts[i].sequence < 0 && !add_special_tokens) continue;
    status = crn_vec_push(a, &out, ((crn_encoding){.spanned = encodings->items[0].spanned}));
    if (status == CAIRN_OK) status = run_part(a, &parts[i], encodings, &out.items[out.size - 1]);
  }
  crn_encodings_free(a, encodings);
  *encodings = out;
  return status;
}

static cairn_status run_processors(const cairn_tokenizer *t, const crn_view *texts, crn_encoding_vec *encodings, bool add_special_tokens) {
  for (size_t i = 0; i < t->n_processors; i++) {
    const crn_processor *p = &t->processors[i];
    for (size_t k = 0; k < encodings->size && p->trim_offsets; k++) crn_spans_trim(&encodings->items[k], texts, p->add_prefix);
    if (p->kind == CRN_PROCESSOR_TEMPLATE) {
      CRN_TRY(run_template(t->allocator, p, encodings, add_special_tokens));
    } else if (p->kind != CRN_PROCESSOR_BYTE_LEVEL) {
      CRN_TRY(run_frame(t->allocator, p, encodings, add_special_tokens));
    }
  }
  return CAIRN_OK;
}

static cairn_status join(const cairn_allocator *a, crn_encoding_vec *encodings) {
  if (!encodings->size) return crn_vec_push(a, encodings, ((crn_encoding){0}));
  for (size_t i = 1; i < encodings->size; i++) CRN_TRY(append_encoding(a, &encodings->items[0], &encodings->items[i]));
  return CAIRN_OK;
}

// --- padding -----------------------------------------------------------------------------------------------------------

static void pad_side(crn_i32_vec *v, size_t n, int32_t value, bool left) {
  if (left) memmove(v->items + n, v->items, v->size * sizeof *v->items);
  for (size_t i = 0; i < n; i++) v->items[left ? i : v->size + i] = value;
  v->size += n;
}

static cairn_status pad_spans(const cairn_allocator *a, crn_span_vec *v, size_t n, bool left) {
  CRN_TRY(crn_vec_reserve(a, v, n));
  if (left) memmove(v->items + n, v->items, v->size * sizeof *v->items);
  for (size_t i = 0; i < n; i++) v->items[left ? i : v->size + i] = (crn_span){.text = -1};
  v->size += n;
  return CAIRN_OK;
}

static cairn_status pad(const cairn_allocator *a, const crn_padding *padding, crn_encoding *e) {
  size_t length = padding->fixed ? padding->length : e->ids.size;
  if (padding->multiple && length % padding->multiple && !crn_add_size(length, padding->multiple - length % padding->multiple, &length)) {
    return CRN_FAIL(OUT_OF_MEMORY, "padding to a multiple of %zu is too long", padding->multiple);
  }
  if (length <= e->ids.size) return CAIRN_OK;
  size_t n = length - e->ids.size;
  CRN_TRY(crn_vec_reserve(a, &e->ids, n));
  CRN_TRY(crn_vec_reserve(a, &e->types, n));
  if (e->spanned) CRN_TRY(pad_spans(a, &e->spans, n, padding->left));
  pad_side(&e->ids, n, padding->id, padding->left);
  pad_side(&e->types, n, padding->type, padding->left);
  return CAIRN_OK;
}

cairn_status crn_postprocess(const cairn_tokenizer *t, const crn_view *texts, crn_encoding_vec *encodings, int flags) {
  bool add_special_tokens = flags & CRN_ENCODE_SPECIAL, whole = flags & CRN_ENCODE_WHOLE;
  if (!whole) CRN_TRY(apply_truncation(t, encodings, add_special_tokens));
  CRN_TRY(run_processors(t, texts, encodings, add_special_tokens));
  CRN_TRY(join(t->allocator, encodings));
  return t->padding.active && !whole ? pad(t->allocator, &t->padding, &encodings->items[0]) : CAIRN_OK;
}
