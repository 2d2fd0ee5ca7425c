// One call of encode: cutting at added tokens, normalizing, pre-tokenizing, the model.
#include <string.h>

#include "text/tokenizer/internal.h"
#include "text/tokenizer/models/raw.h"
#include "text/tokenizer/models/words.h"

cairn_status crn_run_initialize(crn_run *run, const cairn_tokenizer *tokenizer) {
  *run = (crn_run){.tokenizer = tokenizer, .allocator = tokenizer->allocator};
  crn_text_initialize(&run->text, run->allocator, tokenizer->tracked);
  crn_text_initialize(&run->spare, run->allocator, tokenizer->tracked);
  crn_str_initialize(&run->word, run->allocator);
  CRN_TRY(crn_regex_room_create(&run->room));
  crn_words_take(run);
  return CAIRN_OK;
}

void crn_run_deinitialize(crn_run *run) {
  const cairn_allocator *a = run->allocator;
  crn_text_deinitialize(&run->text);
  crn_text_deinitialize(&run->spare);
  crn_str_deinitialize(&run->word);
  crn_vec_free(a, &run->pieces);
  crn_vec_free(a, &run->spare_pieces);
  crn_vec_free(a, &run->matches);
  crn_vec_free(a, &run->outer);
  crn_vec_free(a, &run->inner);
  crn_vec_free(a, &run->symbols);
  crn_vec_free(a, &run->heap);
  crn_vec_free(a, &run->best);
  crn_vec_free(a, &run->codes);
  crn_vec_free(a, &run->splits);
  crn_words_leave(run);
  if (run->room) crn_regex_room_destroy(run->room);
}

void crn_run_swap_texts(crn_run *run) {
  crn_text swap = run->text;
  run->text = run->spare;
  run->spare = swap;
}

cairn_status crn_run_push(crn_run *run, int32_t id) { return crn_vec_push(run->allocator, run->ids, id); }

void crn_run_record(crn_run *run, crn_span_vec *spans) {
  run->spans = spans;
  run->text.tracked = run->spare.tracked = true;
}

// Text between added tokens of the normalized text.
static cairn_status encode_stretch(crn_run *run, const crn_text *normalized, crn_stretch s) {
  crn_piece whole = crn_text_cut(normalized, s.begin, s.end);
  crn_text_clear(&run->text);
  CRN_TRY(crn_text_copy(&run->text, normalized, s.begin, s.end));
  run->pieces.size = 0;
  CRN_TRY(crn_vec_push(run->allocator, &run->pieces, ((crn_piece){0, s.end - s.begin, whole.shift})));
  CRN_TRY(crn_pretokenizers_run(run));
  if (run->raw) return crn_raw_encode(run);
  CRN_TRY(crn_str_reserve(&run->text.bytes, CRN_WORD_SLACK));
  for (size_t i = 0; i < run->pieces.size; i++) {
    crn_piece p = run->pieces.items[i];
    run->piece = p;
    CRN_TRY(crn_words_tokenize(run, run->text.bytes.data + p.begin, p.end - p.begin));
  }
  return CAIRN_OK;
}

static cairn_status encode_normalized(crn_run *run) {
  const crn_added *added = &run->tokenizer->added;
  crn_text normalized = run->text;
  crn_text_initialize(&run->text, run->allocator, normalized.tracked);
  cairn_status status =
      crn_added_split(added, &added->normalized, run->allocator, normalized.bytes.data, normalized.bytes.size, &run->inner);
  for (size_t i = 0; i < run->inner.size && status == CAIRN_OK; i++) {
    crn_stretch s = run->inner.items[i];
    if (s.token >= 0) {
      status = crn_run_push_added(run, &normalized, s, added->tokens[s.token].id);
    } else {
      status = encode_stretch(run, &normalized, s);
    }
  }
  crn_text_deinitialize(&run->text);
  run->text = normalized;
  return status;
}

// What makes matching faster takes about as long to make as cutting some ten thousand bytes without it.
enum { LONG_TEXT = 16384 };

static cairn_status prepare(const cairn_tokenizer *t) {
  for (size_t i = 0; i < t->regexes.size; i++) CRN_TRY(crn_regex_prepare(t->regexes.items[i]));
  return CAIRN_OK;
}

cairn_status crn_run_encode(crn_run *run, const char *text, size_t bytes, crn_i32_vec *ids) {
  const crn_added *added = &run->tokenizer->added;
  run->ids = ids;
  run->raw = run->tokenizer->raw && !run->text.tracked;
  if (bytes >= LONG_TEXT) CRN_TRY(prepare(run->tokenizer));
  CRN_TRY(crn_added_split(added, &added->plain, run->allocator, text, bytes, &run->outer));
  for (size_t i = 0; i < run->outer.size; i++) {
    crn_stretch s = run->outer.items[i];
    crn_text_clear(&run->text);
    CRN_TRY(crn_text_input(&run->text, text + s.begin, s.end - s.begin, (uint32_t)s.begin));
    if (s.token >= 0) {
      CRN_TRY(crn_run_push_added(run, &run->text, (crn_stretch){0, s.end - s.begin, s.token}, added->tokens[s.token].id));
      continue;
    }
    CRN_TRY(crn_normalizers_run(run, (uint32_t)s.begin));
    CRN_TRY(encode_normalized(run));
  }
  return CAIRN_OK;
}
