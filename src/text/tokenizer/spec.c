// Tokenizers from the parts another format gives.
#include "text/tokenizer/spec.h"

#include <math.h>
#include <string.h>

#include "text/tokenizer/internal.h"
#include "text/tokenizer/normalizers.h"
#include "text/tokenizer/spec_families.h"
#include "text/tokenizer/spec_names.h"

void crn_tokenizer_spec_initialize(crn_tokenizer_spec *spec) {
  *spec = (crn_tokenizer_spec){
      .what = "tokenizer", .bos_id = -1, .eos_id = -1, .unk_id = -1, .add_space_prefix = true, .lowercase = true, .strip_accents = true};
}

cairn_status crn_tokenizer_model_by_name(const char *name, crn_tokenizer_model *out_model) {
  static const struct {
    const char *name;
    crn_tokenizer_model model;
  } models[] = {
      {"gpt2", CRN_TOKENIZER_MODEL_BPE}, {"llama", CRN_TOKENIZER_MODEL_SPM},        {"bert", CRN_TOKENIZER_MODEL_WPM},
      {"t5", CRN_TOKENIZER_MODEL_UGM},   {"gemma4", CRN_TOKENIZER_MODEL_PLAIN_BPE}, {"rwkv", CRN_TOKENIZER_MODEL_RWKV},
  };
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    if (!strcmp(name, models[i].name)) return *out_model = models[i].model, CAIRN_OK;
  }
  return CRN_FAIL(UNSUPPORTED, "tokenizer model '%.80s', expected gpt2, llama, bert, t5, gemma4 or rwkv", name);
}

// --- checking --------------------------------------------------------------------------------------------------------

static cairn_status check_id(const crn_tokenizer_spec *s, const char *name, int32_t id, bool required) {
  if (required && id < 0) return CRN_FAIL(CORRUPT, "%s: a %s token is to be added, but there is no id for it", s->what, name);
  if (id >= 0 && (size_t)id >= s->n_tokens) {
    return CRN_FAIL(CORRUPT, "%s: %s token %d is outside the %zu tokens", s->what, name, (int)id, s->n_tokens);
  }
  return CAIRN_OK;
}

static cairn_status check(const crn_tokenizer_spec *s) {
  bool spm = s->model == CRN_TOKENIZER_MODEL_SPM || s->model == CRN_TOKENIZER_MODEL_UGM;
  if (!s->what) return CRN_FAIL(INVALID_ARGUMENT, "a tokenizer specification needs a name for messages");
  if (!s->n_tokens || !s->tokens) return CRN_FAIL(INVALID_ARGUMENT, "%s: there are no tokens", s->what);
  if (s->n_tokens > CRN_MAX_TOKEN_ID)
    return CRN_FAIL(UNSUPPORTED, "%s: %zu tokens, at most %d are supported", s->what, s->n_tokens, CRN_MAX_TOKEN_ID);
  if (spm && !s->scores) return CRN_FAIL(INVALID_ARGUMENT, "%s: a SentencePiece vocabulary needs scores", s->what);
  if (!spm && s->n_merges && !s->merges) return CRN_FAIL(INVALID_ARGUMENT, "%s: there are no merges", s->what);
  for (size_t i = 0; i < s->n_tokens; i++) {
    // Decoders work on characters, so a token must be made of whole ones.
    if (!crn_is_utf8(s->tokens[i].data, s->tokens[i].bytes)) return CRN_FAIL(CORRUPT, "%s: token %zu is not UTF-8", s->what, i);
    if (spm && isnan(s->scores[i])) return CRN_FAIL(CORRUPT, "%s: token %zu has no number as score", s->what, i);
  }
  CRN_TRY(check_id(s, "beginning-of-text", s->bos_id, s->add_bos));
  CRN_TRY(check_id(s, "end-of-text", s->eos_id, s->add_eos));
  return check_id(s, "unknown", s->unk_id, false);
}

// --- parts -------------------------------------------------------------------------------------------------------------

static cairn_status load_vocab(crn_build *build, const crn_tokenizer_spec *s) {
  if (s->model == CRN_TOKENIZER_MODEL_WPM) return crn_spec_load_wordpieces(build, s);
  if (s->model == CRN_TOKENIZER_MODEL_RWKV) return crn_spec_load_escaped(build, s);
  crn_view *texts;
  CRN_TRY(crn_alloc_array(build->allocator, s->n_tokens, sizeof *texts, &texts));
  for (size_t i = 0; i < s->n_tokens; i++) texts[i] = (crn_view){s->tokens[i].data, s->tokens[i].bytes};
  cairn_status status = crn_vocab_load_list(build, texts, s->n_tokens);
  crn_free(build->allocator, texts, s->n_tokens * sizeof *texts);
  return status;
}

static cairn_status add_merge(crn_build *build, const crn_token_text *merge, size_t rank) {
  const char *space = merge->bytes > 1 ? memchr(merge->data + 1, ' ', merge->bytes - 1) : NULL;
  if (!space) return CRN_FAIL(CORRUPT, "%s: merge %zu must be \"left right\"", build->what, rank);
  size_t left = (size_t)(space - merge->data);
  return crn_bpe_add_merge(build, (uint32_t)rank, merge->data, left, space + 1, merge->bytes - left - 1);
}

static cairn_status add_merges(crn_build *build, const crn_tokenizer_spec *s) {
  CRN_TRY(crn_bpe_begin_merges(build, s->n_merges));
  for (size_t i = 0; i < s->n_merges; i++) CRN_TRY(add_merge(build, &s->merges[i], i));
  crn_bpe_finish(build->tokenizer);
  return CAIRN_OK;
}

// Words are what stands on a line; a row of line ends that is a token as a whole is that token.
static cairn_status make_plain_bpe(crn_build *build, const crn_tokenizer_spec *s) {
  static const crn_view mark = {"\xe2\x96\x81", 3};
  cairn_tokenizer *t = build->tokenizer;
  crn_normalizer spaces = {.kind = CRN_NORMALIZER_REPLACE, .content = mark};
  t->model.kind = CRN_MODEL_BPE;
  t->model.byte_fallback = t->model.whole_line_ends = true;
  CRN_TRY(crn_build_regex(build, " ", 1, true, &spaces.regex));
  CRN_TRY(crn_normalizers_add(build, &spaces));
  CRN_TRY(crn_pretokenizers_add_split(build, "[^\\n]+|[\\n]+"));
  CRN_TRY(crn_decoders_add_spm(build, false));
  return add_merges(build, s);
}

static cairn_status make_bpe(crn_build *build, const crn_tokenizer_spec *s) {
  cairn_tokenizer *t = build->tokenizer;
  const char *pre = s->pre ? s->pre : "default";
  const crn_named_split *split = crn_named_split_find(pre);
  if (!split) return CRN_FAIL(UNSUPPORTED, "%s: pre-tokenizer '%.80s' is not known", s->what, pre);
  if (split->plain) return make_plain_bpe(build, s);
  t->model.kind = CRN_MODEL_BPE;
  t->model.ignore_merges = split->ignore_merges;
  if (split->compose) CRN_TRY(crn_normalizers_add(build, &(crn_normalizer){.kind = CRN_NORMALIZER_NFC}));
  for (size_t i = 0; i < sizeof split->patterns / sizeof *split->patterns && split->patterns[i]; i++) {
    CRN_TRY(crn_pretokenizers_add_split(build, split->patterns[i]));
  }
  CRN_TRY(crn_pretokenizers_add_byte_level(build));
  CRN_TRY(crn_decoders_add_byte_level(build));
  return add_merges(build, s);
}

static cairn_status make_spm(crn_build *build, const crn_tokenizer_spec *s) {
  static const crn_view mark = {"\xe2\x96\x81", 3};
  cairn_tokenizer *t = build->tokenizer;
  float *scores;
  crn_normalizer prepend = {.kind = CRN_NORMALIZER_PREPEND, .content = mark}, spaces = {.kind = CRN_NORMALIZER_REPLACE, .content = mark};
  t->model.kind = CRN_MODEL_SPM;
  CRN_TRY(crn_arena_array(&t->arena, s->n_tokens, sizeof *scores, &scores));
  memcpy(scores, s->scores, s->n_tokens * sizeof *scores);
  t->model.float_scores = scores;
  CRN_TRY(crn_build_regex(build, " ", 1, true, &spaces.regex));
  if (s->add_space_prefix) CRN_TRY(crn_normalizers_add(build, &prepend));
  CRN_TRY(crn_normalizers_add(build, &spaces));
  crn_model_find_bytes(t);
  return crn_decoders_add_spm(build, s->add_space_prefix);
}

static cairn_status set_added(crn_build *build, const crn_tokenizer_spec *s) {
  crn_added_token *tokens;
  size_t n = 0;
  CRN_TRY(crn_alloc_array(build->allocator, s->n_tokens, sizeof *tokens, &tokens));
  for (size_t i = 0; s->types && i < s->n_tokens; i++) {
    int32_t type = s->types[i];
    if (type != CRN_TOKEN_CONTROL && type != CRN_TOKEN_USER_DEFINED && type != CRN_TOKEN_UNKNOWN) continue;
    const crn_view *text = &build->tokenizer->vocab.tokens[i];
    // Of tokens that read the same only one can be found in a text.
    if (!text->bytes || crn_vocab_id(&build->tokenizer->vocab, text->text, text->bytes) != (int32_t)i) continue;
    tokens[n++] = (crn_added_token){.content = *text, .id = (int32_t)i, .special = type != CRN_TOKEN_USER_DEFINED};
  }
  cairn_status status = crn_added_set(build, tokens, n);
  crn_free(build->allocator, tokens, s->n_tokens * sizeof *tokens);
  return status;
}

static cairn_status make_model(crn_build *build, const crn_tokenizer_spec *s) {
  switch (s->model) {
    case CRN_TOKENIZER_MODEL_SPM:
      return make_spm(build, s);
    case CRN_TOKENIZER_MODEL_WPM:
      return crn_spec_make_wordpiece(build, s);
    case CRN_TOKENIZER_MODEL_UGM:
      return crn_spec_make_unigram(build, s);
    case CRN_TOKENIZER_MODEL_PLAIN_BPE:
      return make_plain_bpe(build, s);
    case CRN_TOKENIZER_MODEL_RWKV:
      return crn_spec_make_greedy(build);
    default:
      return make_bpe(build, s);
  }
}

static cairn_status make(crn_build *build, const crn_tokenizer_spec *s) {
  CRN_TRY(check(s));
  build->tokenizer->model.unk_id = s->unk_id;
  CRN_TRY(load_vocab(build, s));
  CRN_TRY(make_model(build, s));
  if (s->model == CRN_TOKENIZER_MODEL_WPM && s->add_bos && s->add_eos) {
    CRN_TRY(crn_processors_add_frame(build, s->bos_id, s->eos_id));
  } else if (s->add_bos || s->add_eos) {
    CRN_TRY(crn_processors_add_bos_eos(build, s->add_bos ? s->bos_id : -1, s->add_eos ? s->eos_id : -1));
  }
  CRN_TRY(set_added(build, s));
  const int32_t ids[] = {s->bos_id, s->eos_id, s->unk_id};  // in the order of crn_role_names
  for (int i = 0; i < 3; i++) build->tokenizer->roles[i] = ids[i] >= 0 ? build->tokenizer->vocab.tokens[ids[i]].text : NULL;
  return crn_tokenizer_finish(build);
}

cairn_status crn_tokenizer_create_from_spec(cairn_context *context, const crn_tokenizer_spec *spec, cairn_tokenizer **out_tokenizer) {
  cairn_tokenizer *t;
  *out_tokenizer = NULL;
  CRN_TRY(crn_tokenizer_create_empty(context, &t));
  crn_build build = {.context = context, .allocator = t->allocator, .tokenizer = t, .what = spec->what};
  cairn_status status = make(&build, spec);
  if (status != CAIRN_OK) {
    cairn_tokenizer_release(t);
    return status;
  }
  *out_tokenizer = t;
  return CAIRN_OK;
}
