// Whole words only.
#include <stdio.h>

#include "text/tokenizer/internal.h"

cairn_status crn_wordlevel_load(crn_build *build, const json_t *json) {
  cairn_tokenizer *t = build->tokenizer;
  char where[160];
  snprintf(where, sizeof where, "%.120s: WordLevel model", build->what);
  t->model.kind = CRN_MODEL_WORDLEVEL;
  CRN_TRY(crn_build_view(build, json, where, "unk_token", true, &t->model.unk_token));
  CRN_TRY(crn_vocab_load_map(build, json_object_get(json, "vocab")));
  t->model.unk_id = crn_vocab_id(&t->vocab, t->model.unk_token.text, t->model.unk_token.bytes);
  return CAIRN_OK;
}

cairn_status crn_wordlevel_tokenize(crn_run *run, const char *text, size_t bytes) {
  const cairn_tokenizer *t = run->tokenizer;
  int32_t id = crn_vocab_id(&t->vocab, text, bytes);
  if (id < 0) id = t->model.unk_id;
  if (id < 0) return CRN_FAIL(FAILED_PRECONDITION, "the unknown token '%.80s' is not in the vocabulary", t->model.unk_token.text);
  return crn_run_push_part(run, id, 0, bytes);
}
