// Unigram: of all ways to cut a text into pieces the one with the highest sum of scores.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text/tokenizer/internal.h"
#include "text/tokenizer/models/score.h"

static const double UNKNOWN_PENALTY = 10.0;

// --- loading ---------------------------------------------------------------------------------------------------------

static cairn_status load_pieces(crn_build *build, const json_t *list, crn_view *texts, double *scores, double *out_min) {
  *out_min = INFINITY;
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *entry = json_array_get(list, i);
    const json_t *text = json_array_get(entry, 0), *score = json_array_get(entry, 1);
    if (json_array_size(entry) != 2 || !json_is_string(text) || !json_is_number(score)) {
      return CRN_FAIL(CORRUPT, "%s: vocabulary entry %zu must be [token, score]", build->what, i);
    }
    texts[i] = (crn_view){json_string_value(text), json_string_length(text)};
    scores[i] = json_is_integer(score) ? (double)json_integer_value(score) : crn_score_as_read(json_real_value(score));
    if (scores[i] < *out_min) *out_min = scores[i];
  }
  return CAIRN_OK;
}

static cairn_status load_unk_id(crn_build *build, const json_t *json, size_t n) {
  const json_t *v = json_object_get(json, "unk_id");
  if (!v || json_is_null(v)) return CAIRN_OK;
  if (!json_is_integer(v) || json_integer_value(v) < 0 || (uint64_t)json_integer_value(v) >= n) {
    return CRN_FAIL(CORRUPT, "%s: 'unk_id' must be null or the index of one of the %zu tokens", build->what, n);
  }
  build->tokenizer->model.unk_id = (int32_t)json_integer_value(v);
  return CAIRN_OK;
}

cairn_status crn_unigram_load(crn_build *build, const json_t *json) {
  cairn_tokenizer *t = build->tokenizer;
  crn_model *m = &t->model;
  const json_t *list = json_object_get(json, "vocab");
  crn_view *texts = NULL;
  double *scores, min;
  cairn_status status;
  m->kind = CRN_MODEL_UNIGRAM;
  if (!json_is_array(list)) return CRN_FAIL(CORRUPT, "%s: 'vocab' of a Unigram model must be an array", build->what);
  size_t n = json_array_size(list);
  CRN_TRY(load_unk_id(build, json, n));
  CRN_TRY(crn_json_bool(json, build->what, "byte_fallback", false, &m->byte_fallback));
  CRN_TRY(crn_arena_array(&t->arena, n, sizeof *scores, &scores));
  CRN_TRY(crn_alloc_array(build->allocator, n, sizeof *texts, &texts));
  CRN_TRY_GOTO(load_pieces(build, list, texts, scores, &min));
  m->scores = scores;
  m->unk_score = min - UNKNOWN_PENALTY;
  CRN_TRY_GOTO(crn_vocab_load_list(build, texts, n));
  CRN_TRY_GOTO(crn_vocab_trie(build, &m->trie));
  crn_model_find_bytes(t);
done:
  crn_free(build->allocator, texts, n * sizeof *texts);
  return status;
}

// --- encoding --------------------------------------------------------------------------------------------------------

static bool is_better(const crn_best *target, double score) { return target->start < 0 || score > target->score; }

static cairn_status find_best(crn_run *run, const char *text, size_t bytes) {
  const crn_model *m = &run->tokenizer->model;
  run->best.size = 0;
  CRN_TRY(crn_vec_reserve(run->allocator, &run->best, bytes + 1));
  crn_best *best = run->best.items;
  for (size_t i = 0; i <= bytes; i++) best[i] = (crn_best){.start = -1};
  for (size_t start = 0; start < bytes;) {
    size_t char_bytes = (size_t)crn_code_bytes((unsigned char)text[start]);
    double here = best[start].score;
    bool whole_char = false;
    uint32_t node = 0;
    for (size_t at = start; at < bytes; at++) {
      node = crn_trie_step(&m->trie, node, (unsigned char)text[at]);
      if (!node) break;
      int32_t id = m->trie.nodes[node].value;
      if (id < 0) continue;
      double score = m->scores[id] + here;
      if (is_better(&best[at + 1], score)) best[at + 1] = (crn_best){score, id, (int32_t)start};
      whole_char = whole_char || at + 1 - start == char_bytes;
    }
    crn_best *behind = &best[start + char_bytes];
    if (!whole_char && is_better(behind, m->unk_score + here)) {
      if (m->unk_id < 0) return CRN_FAIL(FAILED_PRECONDITION, "a character is not in the vocabulary and there is no unknown token");
      *behind = (crn_best){m->unk_score + here, m->unk_id, (int32_t)start};
    }
    start += char_bytes;
  }
  return CAIRN_OK;
}

// A stretch of unknown characters is one piece; when the vocabulary happens to have it as a whole, it is that token.
static cairn_status push_piece(crn_run *run, const char *text, size_t begin, size_t bytes) {
  const cairn_tokenizer *t = run->tokenizer;
  const crn_model *m = &t->model;
  size_t end = begin + bytes;
  text += begin;
  int32_t id = crn_vocab_id(&t->vocab, text, bytes);
  if (id >= 0) return crn_run_push_part(run, id, begin, end);
  bool all = m->byte_fallback;
  for (size_t i = 0; i < bytes && all; i++) all = m->byte_ids[(unsigned char)text[i]] >= 0;
  if (!all) return crn_run_push_value(run, m->unk_id, begin, end, (crn_view){text, bytes});
  for (size_t i = 0; i < bytes; i++) CRN_TRY(crn_run_push_part(run, m->byte_ids[(unsigned char)text[i]], begin, end));
  return CAIRN_OK;
}

// The path is known from its end, so the ends of its pieces are gathered backwards. Unknown pieces side by side are one.
static cairn_status gather_ends(crn_run *run, size_t bytes) {
  const crn_model *m = &run->tokenizer->model;
  bool unknown = false;
  run->codes.size = 0;
  for (int32_t end = (int32_t)bytes; end > 0; end = run->best.items[end].start) {
    bool is_unknown = run->best.items[end].id == m->unk_id;
    if (!(is_unknown && unknown)) CRN_TRY(crn_vec_push(run->allocator, &run->codes, end));
    unknown = is_unknown;
  }
  return CAIRN_OK;
}

cairn_status crn_unigram_tokenize(crn_run *run, const char *text, size_t bytes) {
  size_t begin = 0;
  CRN_TRY(find_best(run, text, bytes));
  CRN_TRY(gather_ends(run, bytes));
  for (size_t i = run->codes.size; i-- > 0;) {
    size_t end = (size_t)run->codes.items[i];
    CRN_TRY(push_piece(run, text, begin, end - begin));
    begin = end;
  }
  return CAIRN_OK;
}
