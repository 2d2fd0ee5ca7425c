// WordPiece: from the front of a word the longest piece of the vocabulary, again and again; a word that does not come
// out even is unknown as a whole.
#include <stdio.h>
#include <string.h>

#include "text/tokenizer/internal.h"

cairn_status crn_wordpiece_load(crn_build *build, const json_t *json) {
  cairn_tokenizer *t = build->tokenizer;
  crn_model *m = &t->model;
  int64_t longest;
  char where[160];
  snprintf(where, sizeof where, "%.120s: WordPiece model", build->what);
  m->kind = CRN_MODEL_WORDPIECE;
  CRN_TRY(crn_build_view(build, json, where, "unk_token", true, &m->unk_token));
  CRN_TRY(crn_build_view(build, json, where, "continuing_subword_prefix", true, &m->prefix));
  CRN_TRY(crn_json_int(json, where, "max_input_chars_per_word", true, &longest));
  if (longest < 0) return CRN_FAIL(CORRUPT, "%s: max_input_chars_per_word is %lld, 0 or more expected", where, (long long)longest);
  m->max_word_chars = (size_t)longest;
  CRN_TRY(crn_vocab_load_map(build, json_object_get(json, "vocab")));
  m->unk_id = crn_vocab_id(&t->vocab, m->unk_token.text, m->unk_token.bytes);
  return CAIRN_OK;
}

static cairn_status push_unknown(crn_run *run) {
  const crn_model *m = &run->tokenizer->model;
  if (m->unk_id < 0) return CRN_FAIL(FAILED_PRECONDITION, "the unknown token '%.80s' is not in the vocabulary", m->unk_token.text);
  return crn_run_push(run, m->unk_id);
}

static size_t count_chars(const char *text, size_t bytes) {
  size_t n = 0;
  for (size_t i = 0; i < bytes; i++) n += ((unsigned char)text[i] & 0xc0) != 0x80;
  return n;
}

// Nothing longer than the longest entry can be found, so the search starts there.
static size_t longest_end(const cairn_tokenizer *t, const char *text, size_t bytes, size_t start) {
  size_t limit = (size_t)t->vocab.max_bytes;
  if (bytes - start <= limit) return bytes;
  size_t end = start + limit;
  while (end > start && ((unsigned char)text[end] & 0xc0) == 0x80) end--;
  return end;
}

static cairn_status find_piece(crn_run *run, const char *text, size_t bytes, size_t start, int32_t *out_id, size_t *out_end) {
  const cairn_tokenizer *t = run->tokenizer;
  size_t end = longest_end(t, text, bytes, start), prefix = start ? t->model.prefix.bytes : 0;
  *out_id = -1;
  crn_str_clear(&run->word);
  CRN_TRY(crn_str_append(&run->word, t->model.prefix.text, prefix));
  CRN_TRY(crn_str_append(&run->word, text + start, end - start));
  while (end > start) {
    *out_id = crn_vocab_id(&t->vocab, run->word.data, prefix + (end - start));
    *out_end = end;
    if (*out_id >= 0) return CAIRN_OK;
    do end--;
    while (((unsigned char)text[end] & 0xc0) == 0x80);
  }
  return CAIRN_OK;
}

cairn_status crn_wordpiece_tokenize(crn_run *run, const char *text, size_t bytes) {
  size_t first = run->ids->size;
  if (count_chars(text, bytes) > run->tokenizer->model.max_word_chars) return push_unknown(run);
  for (size_t start = 0; start < bytes;) {
    int32_t id;
    size_t end;
    CRN_TRY(find_piece(run, text, bytes, start, &id, &end));
    if (id < 0) {
      run->ids->size = first;
      return push_unknown(run);
    }
    CRN_TRY(crn_run_push(run, id));
    start = end;
  }
  return CAIRN_OK;
}
