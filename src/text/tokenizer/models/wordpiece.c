// WordPiece: from the front of a word the longest piece of the vocabulary, again and again; a word that does not come
// out even is unknown as a whole.
#include <stdio.h>
#include <string.h>

#include "text/tokenizer/internal.h"

static void find_prefix(crn_model *m) {
  m->has_prefixed = true;
  for (size_t i = 0; i < m->prefix.bytes && m->has_prefixed; i++) {
    m->prefix_node = crn_trie_step(&m->trie, m->prefix_node, (unsigned char)m->prefix.text[i]);
    m->has_prefixed = m->prefix_node != 0;
  }
}

cairn_status crn_wordpiece_finish(crn_build *build) {
  crn_model *m = &build->tokenizer->model;
  m->kind = CRN_MODEL_WORDPIECE;
  CRN_TRY(crn_vocab_trie(build, &m->trie));
  find_prefix(m);
  return CAIRN_OK;
}

cairn_status crn_wordpiece_load(crn_build *build, const json_t *json) {
  cairn_tokenizer *t = build->tokenizer;
  crn_model *m = &t->model;
  int64_t longest;
  char where[160];
  snprintf(where, sizeof where, "%.120s: WordPiece model", build->what);
  CRN_TRY(crn_build_view(build, json, where, "unk_token", true, &m->unk_token));
  CRN_TRY(crn_build_view(build, json, where, "continuing_subword_prefix", true, &m->prefix));
  CRN_TRY(crn_json_int(json, where, "max_input_chars_per_word", true, &longest));
  if (longest < 0) return CRN_FAIL(CORRUPT, "%s: max_input_chars_per_word is %lld, 0 or more expected", where, (long long)longest);
  m->max_word_chars = (size_t)longest;
  CRN_TRY(crn_vocab_load_map(build, json_object_get(json, "vocab")));
  m->unk_id = crn_vocab_id(&t->vocab, m->unk_token.text, m->unk_token.bytes);
  return crn_wordpiece_finish(build);
}

static cairn_status push_unknown(crn_run *run, size_t bytes) {
  const crn_model *m = &run->tokenizer->model;
  if (m->unk_id < 0) return CRN_FAIL(FAILED_PRECONDITION, "the unknown token '%.80s' is not in the vocabulary", m->unk_token.text);
  return crn_run_push_part(run, m->unk_id, 0, bytes);
}

static size_t count_chars(const char *text, size_t bytes) {
  size_t n = 0;
  for (size_t i = 0; i < bytes; i++) n += ((unsigned char)text[i] & 0xc0) != 0x80;
  return n;
}

/// The longest token that starts here. Behind the front of a word that is one with the prefix, so the search starts where
/// the prefix leads.
static int32_t find_piece(const crn_model *m, const char *text, size_t bytes, bool front, size_t *out_bytes) {
  uint32_t node = front ? 0 : m->prefix_node;
  int32_t id = -1;
  if (!m->trie.nodes || (!front && !m->has_prefixed)) return -1;
  for (size_t i = 0; i < bytes; i++) {
    node = crn_trie_step(&m->trie, node, (unsigned char)text[i]);
    if (!node) break;
    if (m->trie.nodes[node].value < 0) continue;
    id = m->trie.nodes[node].value;
    *out_bytes = i + 1;
  }
  return id;
}

cairn_status crn_wordpiece_tokenize(crn_run *run, const char *text, size_t bytes) {
  const crn_model *m = &run->tokenizer->model;
  size_t first = run->ids->size, first_span = run->spans ? run->spans->size : 0;
  if (count_chars(text, bytes) > m->max_word_chars) return push_unknown(run, bytes);
  for (size_t start = 0, used; start < bytes; start += used) {
    int32_t id = find_piece(m, text + start, bytes - start, start == 0, &used);
    if (id < 0) {
      run->ids->size = first;
      if (run->spans) run->spans->size = first_span;
      return push_unknown(run, bytes);
    }
    CRN_TRY(crn_run_push_part(run, id, start, start + used));
  }
  return CAIRN_OK;
}
