// Which model a file has, and what the models share.
#include <stdio.h>
#include <string.h>

#include "text/tokenizer/internal.h"

void crn_model_find_bytes(cairn_tokenizer *t) {
  for (int i = 0; i < 256; i++) {
    char text[8];
    snprintf(text, sizeof text, "<0x%02X>", (unsigned)i);
    t->model.byte_ids[i] = crn_vocab_id(&t->vocab, text, 6);
  }
}

// Files of the first years have no "type" in the model; its members tell then.
static const char *guess_type(const json_t *json) {
  const json_t *vocab = json_object_get(json, "vocab");
  if (vocab && json_object_get(json, "merges")) return "BPE";
  if (json_is_array(vocab)) return "Unigram";
  if (!vocab || !json_object_get(json, "unk_token")) return "";
  return json_object_get(json, "continuing_subword_prefix") && json_object_get(json, "max_input_chars_per_word") ? "WordPiece"
                                                                                                                 : "WordLevel";
}

cairn_status crn_model_load(crn_build *build, const json_t *json) {
  const char *type = NULL;
  char where[160];
  snprintf(where, sizeof where, "%.120s: model", build->what);
  if (!json_is_object(json)) return CRN_FAIL(CORRUPT, "%s must be an object", where);
  CRN_TRY(crn_json_string(json, where, "type", false, &type));
  if (!type) type = guess_type(json);
  build->tokenizer->model.unk_id = -1;
  if (!strcmp(type, "BPE")) return crn_bpe_load(build, json);
  if (!strcmp(type, "Unigram")) return crn_unigram_load(build, json);
  if (!strcmp(type, "WordPiece")) return crn_wordpiece_load(build, json);
  if (!strcmp(type, "WordLevel")) return crn_wordlevel_load(build, json);
  return CRN_FAIL(UNSUPPORTED, "%s type '%.80s', expected BPE, Unigram, WordPiece or WordLevel", where, type);
}

static cairn_status push_line_ends(crn_run *run, const char *text, size_t bytes, bool *out_done) {
  for (size_t i = 0; i < bytes; i++) {
    if (text[i] != '\n') return CAIRN_OK;
  }
  int32_t id = crn_vocab_id(&run->tokenizer->vocab, text, bytes);
  *out_done = id >= 0;
  return *out_done ? crn_run_push_part(run, id, 0, bytes) : CAIRN_OK;
}

cairn_status crn_model_tokenize(crn_run *run, const char *text, size_t bytes) {
  if (!bytes) return CAIRN_OK;
  if (bytes >= INT32_MAX) return CRN_FAIL(INVALID_ARGUMENT, "a normalized text of %zu bytes, less than %d expected", bytes, INT32_MAX);
  bool done = false;
  if (run->tokenizer->model.whole_line_ends) CRN_TRY(push_line_ends(run, text, bytes, &done));
  if (done) return CAIRN_OK;
  switch (run->tokenizer->model.kind) {
    case CRN_MODEL_BPE:
      return crn_bpe_tokenize(run, text, bytes);
    case CRN_MODEL_UNIGRAM:
      return crn_unigram_tokenize(run, text, bytes);
    case CRN_MODEL_WORDPIECE:
      return crn_wordpiece_tokenize(run, text, bytes);
    case CRN_MODEL_WORDLEVEL:
      return crn_wordlevel_tokenize(run, text, bytes);
    case CRN_MODEL_SENTENCEPIECE:
      return crn_sentencepiece_tokenize(run, text, bytes);
    default:
      return crn_spm_tokenize(run, text, bytes);
  }
}
