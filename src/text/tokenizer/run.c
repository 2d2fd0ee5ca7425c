// One call of encode: cutting at added tokens, normalizing, pre-tokenizing, the model.
#include <string.h>

#include "text/tokenizer/internal.h"
#include "text/tokenizer/models/heap.h"

cairn_status crn_run_initialize(crn_run *run, const cairn_tokenizer *tokenizer) {
  *run = (crn_run){.tokenizer = tokenizer, .allocator = tokenizer->allocator};
  crn_text_initialize(&run->text, run->allocator, tokenizer->tracked);
  crn_text_initialize(&run->spare, run->allocator, tokenizer->tracked);
  crn_str_initialize(&run->word, run->allocator);
  return crn_regex_room_create(&run->room);
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
  crn_word_cache_free(run);
  if (run->room) crn_regex_room_destroy(run->room);
}

void crn_run_swap_texts(crn_run *run) {
  crn_text swap = run->text;
  run->text = run->spare;
  run->spare = swap;
}

cairn_status crn_run_push(crn_run *run, int32_t id) { return crn_vec_push(run->allocator, run->ids, id); }

// Text between added tokens of the normalized text.
static cairn_status encode_stretch(crn_run *run, const crn_text *normalized, crn_stretch s) {
  crn_piece whole = crn_text_cut(normalized, s.begin, s.end);
  crn_text_clear(&run->text);
  CRN_TRY(crn_text_copy(&run->text, normalized, s.begin, s.end));
  run->pieces.size = 0;
  CRN_TRY(crn_vec_push(run->allocator, &run->pieces, ((crn_piece){0, s.end - s.begin, whole.shift})));
  CRN_TRY(crn_pretokenizers_run(run));
  for (size_t i = 0; i < run->pieces.size; i++) {
    crn_piece p = run->pieces.items[i];
    CRN_TRY(crn_model_tokenize(run, run->text.bytes.data + p.begin, p.end - p.begin));
  }
  return CAIRN_OK;
}

static cairn_status encode_normalized(crn_run *run) {
  const crn_added *added = &run->tokenizer->added;
  crn_text normalized = run->text;
  crn_text_initialize(&run->text, run->allocator, run->tokenizer->tracked);
  cairn_status status =
      crn_added_split(added, &added->normalized, run->allocator, normalized.bytes.data, normalized.bytes.size, &run->inner);
  for (size_t i = 0; i < run->inner.size && status == CAIRN_OK; i++) {
    crn_stretch s = run->inner.items[i];
    status = s.token >= 0 ? crn_run_push(run, added->tokens[s.token].id) : encode_stretch(run, &normalized, s);
  }
  crn_text_deinitialize(&run->text);
  run->text = normalized;
  return status;
}

cairn_status crn_run_encode(crn_run *run, const char *text, size_t bytes, crn_i32_vec *ids) {
  const crn_added *added = &run->tokenizer->added;
  run->ids = ids;
  run->input_bytes = bytes;
  CRN_TRY(crn_added_split(added, &added->plain, run->allocator, text, bytes, &run->outer));
  for (size_t i = 0; i < run->outer.size; i++) {
    crn_stretch s = run->outer.items[i];
    if (s.token >= 0) {
      CRN_TRY(crn_run_push(run, added->tokens[s.token].id));
      continue;
    }
    crn_text_clear(&run->text);
    CRN_TRY(crn_text_input(&run->text, text + s.begin, s.end - s.begin, (uint32_t)s.begin));
    CRN_TRY(crn_normalizers_run(run, (uint32_t)s.begin));
    CRN_TRY(encode_normalized(run));
  }
  return CAIRN_OK;
}
