// Added tokens: what the text is cut at before anything else happens to it.
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "text/tokenizer/internal.h"
#include "text/tokenizer/unicode.h"

// --- loading ---------------------------------------------------------------------------------------------------------

static cairn_status load_token(crn_build *build, const json_t *json, crn_added_token *token) {
  char where[160];
  snprintf(where, sizeof where, "%.120s: added token", build->what);
  if (!json_is_object(json)) return CRN_FAIL(CORRUPT, "%s must be an object", where);
  int64_t id;
  CRN_TRY(crn_json_int(json, where, "id", true, &id));
  token->id = id >= 0 && id <= INT32_MAX ? (int32_t)id : -1;
  CRN_TRY(crn_build_view(build, json, where, "content", true, &token->content));
  CRN_TRY(crn_build_bool(json, where, "single_word", &token->single_word));
  CRN_TRY(crn_build_bool(json, where, "lstrip", &token->lstrip));
  CRN_TRY(crn_build_bool(json, where, "rstrip", &token->rstrip));
  CRN_TRY(crn_build_bool(json, where, "normalized", &token->normalized));
  return crn_build_bool(json, where, "special", &token->special);
}

// The reference numbers added tokens itself; a file that says otherwise deserves a word.
static void warn_of_other_ids(const crn_build *build, const crn_added_token *tokens, size_t n) {
  const crn_added *added = &build->tokenizer->added;
  for (size_t i = 0; i < n; i++) {
    uint64_t index;
    if (!crn_map_get(&added->by_content, tokens[i].content.text, tokens[i].content.bytes, &index)) continue;
    int32_t id = added->tokens[index].id;
    if (id == tokens[i].id) continue;
    CRN_WARN(build->context, "%s: added token '%s' has id %d in the file and gets %d", build->what, tokens[i].content.text,
             (int)tokens[i].id, (int)id);
  }
}

cairn_status crn_added_load(crn_build *build, const json_t *json) {
  if (!json || json_is_null(json)) return crn_added_set(build, NULL, 0);
  if (!json_is_array(json)) return CRN_FAIL(CORRUPT, "%s: 'added_tokens' must be an array", build->what);
  size_t n = json_array_size(json);
  crn_added_token *tokens;
  CRN_TRY(crn_arena_array(&build->tokenizer->arena, n, sizeof *tokens, &tokens));
  for (size_t i = 0; i < n; i++) CRN_TRY(load_token(build, json_array_get(json, i), &tokens[i]));
  CRN_TRY(crn_added_set(build, tokens, n));
  warn_of_other_ids(build, tokens, n);
  return CAIRN_OK;
}

static cairn_status normalize_content(crn_build *build, crn_added_token *token) {
  cairn_tokenizer *t = build->tokenizer;
  token->normalized_content = token->content;
  if (!token->normalized || !t->n_normalizers) return CAIRN_OK;
  crn_run run;
  cairn_status status;
  CRN_TRY(crn_run_initialize(&run, t));
  CRN_TRY_GOTO(crn_text_input(&run.text, token->content.text, token->content.bytes, 0));
  CRN_TRY_GOTO(crn_normalizers_run(&run, 0));
  token->normalized_content.bytes = run.text.bytes.size;
  CRN_TRY_GOTO(crn_arena_strndup(&t->arena, run.text.bytes.data, run.text.bytes.size, &token->normalized_content.text));
done:
  crn_run_deinitialize(&run);
  return status;
}

// Whoever made the token from an entry of the vocabulary has found its id already.
static int32_t id_in_vocab(const crn_vocab *v, const crn_added_token *token) {
  const bool is_entry = token->id >= 0 && token->id < v->n_ids && v->tokens[token->id].text == token->content.text;
  return is_entry ? token->id : crn_vocab_id(v, token->content.text, token->content.bytes);
}

// A token the vocabulary has keeps its id there; the others are numbered behind the vocabulary in the order of the file,
// whatever id the file writes beside them. A content that comes again replaces the earlier token.
static cairn_status place(crn_build *build, const crn_added_token *token, int32_t *next_id) {
  cairn_tokenizer *t = build->tokenizer;
  crn_added *a = &t->added;
  crn_added_token *slot;
  uint64_t index;
  CRN_TRY(crn_map_claim(&a->by_content, token->content.text, token->content.bytes, a->n_tokens, &index));
  if (index < a->n_tokens) {
    slot = &a->tokens[index];
    int32_t id = slot->id;
    bool special = slot->special;
    *slot = *token;
    slot->id = id;
    // The reference never takes a content out of its set of special tokens again.
    slot->special = special || token->special;
  } else {
    int32_t id = id_in_vocab(&t->vocab, token);
    if (id < 0) id = (*next_id)++;
    if (id > CRN_MAX_TOKEN_ID) return CRN_FAIL(UNSUPPORTED, "%s: more than %d token ids", build->what, CRN_MAX_TOKEN_ID);
    slot = &a->tokens[a->n_tokens++];
    *slot = *token;
    slot->id = id;
  }
  return normalize_content(build, slot);
}

static cairn_status build_trie(crn_build *build, bool normalized, crn_trie *trie) {
  crn_added *a = &build->tokenizer->added;
  crn_trie_key *keys;
  size_t n = 0;
  CRN_TRY(crn_alloc_array(build->allocator, a->n_tokens, sizeof *keys, &keys));
  // A token that is empty when normalized cannot be found; of tokens that come out equal the last one is found.
  for (size_t i = 0; i < a->n_tokens; i++) {
    const crn_added_token *t = &a->tokens[i];
    if (t->normalized != normalized) continue;
    const crn_view *text = normalized ? &t->normalized_content : &t->content;
    keys[n++] = (crn_trie_key){text->text, (uint32_t)text->bytes, (int32_t)i};
  }
  cairn_status status = crn_trie_build(trie, &build->tokenizer->arena, keys, n);
  crn_free(build->allocator, keys, a->n_tokens * sizeof *keys);
  return status;
}

cairn_status crn_added_set(crn_build *build, const crn_added_token *tokens, size_t n_tokens) {
  cairn_tokenizer *t = build->tokenizer;
  crn_added *a = &t->added;
  if (t->vocab.n_tokens > CRN_MAX_TOKEN_ID || n_tokens > CRN_MAX_TOKEN_ID) return CRN_FAIL(UNSUPPORTED, "%s: too many tokens", build->what);
  int32_t next_id = (int32_t)t->vocab.n_tokens;
  CRN_TRY(crn_arena_array(&t->arena, n_tokens, sizeof *a->tokens, &a->tokens));
  CRN_TRY(crn_map_reserve(&a->by_content, n_tokens));
  for (size_t i = 0; i < n_tokens; i++) {
    if (tokens[i].content.bytes) CRN_TRY(place(build, &tokens[i], &next_id));
  }
  CRN_TRY(build_trie(build, false, &a->plain));
  return build_trie(build, true, &a->normalized);
}

// --- matching ----------------------------------------------------------------------------------------------------------

static size_t previous_char(const char *text, size_t at) {
  do at--;
  while (((unsigned char)text[at] & 0xc0) == 0x80);
  return at;
}

static bool stands_alone(const char *text, size_t bytes, size_t begin, size_t end) {
  uint32_t code;
  if (begin) {
    crn_code_at(text + previous_char(text, begin), &code);
    if (crn_is_word(code)) return false;
  }
  if (end < bytes) {
    crn_code_at(text + end, &code);
    if (crn_is_word(code)) return false;
  }
  return true;
}

static size_t spaces_before(const char *text, size_t at, size_t lowest) {
  while (at > lowest) {
    size_t before = previous_char(text, at);
    uint32_t code;
    crn_code_at(text + before, &code);
    if (!crn_is_whitespace(code)) break;
    at = before;
  }
  return at;
}

static size_t spaces_behind(const char *text, size_t bytes, size_t at) {
  while (at < bytes) {
    uint32_t code;
    int n = crn_code_at(text + at, &code);
    if (!crn_is_whitespace(code)) break;
    at += (size_t)n;
  }
  return at;
}

static cairn_status add_stretch(const cairn_allocator *allocator, crn_stretch_vec *out, size_t begin, size_t end, int32_t token) {
  if (begin >= end) return CAIRN_OK;
  return crn_vec_push(allocator, out, ((crn_stretch){begin, end, token}));
}

cairn_status crn_added_split(const crn_added *added, const crn_trie *trie, const cairn_allocator *allocator, const char *text, size_t bytes,
                             crn_stretch_vec *out) {
  size_t done = 0, spaces_begin = SIZE_MAX, spaces_end = 0;
  out->size = 0;
  for (size_t at = 0; at < bytes && trie->nodes;) {
    int32_t index = -1;
    size_t n = trie->roots[(unsigned char)text[at]] ? crn_trie_longest(trie, text + at, bytes - at, &index) : 0;
    if (!n) {
      at++;
      continue;
    }
    const crn_added_token *token = &added->tokens[index];
    size_t begin = at, end = at + n;
    at = end;
    if (token->single_word && !stands_alone(text, bytes, begin, end)) continue;
    if (token->lstrip) {
      // What the token before has taken already is not looked at again.
      begin = begin > done ? spaces_before(text, begin, done) : done;
    }
    if (token->rstrip) {
      // Tokens inside of the white space behind another one share its end, which is not searched for again.
      if (end < spaces_begin || end > spaces_end) {
        spaces_begin = end;
        spaces_end = spaces_behind(text, bytes, end);
      }
      end = spaces_end;
    }
    CRN_TRY(add_stretch(allocator, out, done, begin, -1));
    CRN_TRY(add_stretch(allocator, out, begin, end, index));
    done = end;
  }
  return add_stretch(allocator, out, done, bytes, -1);
}
