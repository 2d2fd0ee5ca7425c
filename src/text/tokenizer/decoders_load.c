// Reading the decoders of a file.
#include <stdio.h>
#include <string.h>

#include "text/tokenizer/decoders.h"
#include "text/tokenizer/sentencepiece.h"

static cairn_status add_decoder(crn_build *build, crn_decoder *step) {
  cairn_tokenizer *t = build->tokenizer;
  CRN_TRY(crn_build_grow(build, (void **)&t->decoders, t->n_decoders, &t->decoder_room, sizeof *step));
  if (t->n_decoders) {
    const crn_decoder *last = &t->decoders[t->n_decoders - 1];
    step->fused = last->fused || last->kind == CRN_DECODER_FUSE || last->kind == CRN_DECODER_BYTE_LEVEL;
  }
  t->decoders[t->n_decoders++] = *step;
  t->has_decoder = true;
  return CAIRN_OK;
}

static cairn_status load_count(const json_t *json, const char *where, const char *key, size_t *out) {
  int64_t n;
  CRN_TRY(crn_json_int(json, where, key, true, &n));
  if (n < 0) return CRN_FAIL(CORRUPT, "%s: '%s' is %lld, 0 or more expected", where, key, (long long)n);
  *out = (size_t)n;
  return CAIRN_OK;
}

static cairn_status load_metaspace(crn_build *build, const json_t *json, const char *where, crn_decoder *step) {
  const char *scheme = "always";
  bool add_prefix = true;
  const json_t *flag = json_object_get(json, "add_prefix_space");
  CRN_TRY(crn_build_char(build, json, where, "replacement", &step->code));
  CRN_TRY(crn_json_string(json, where, "prepend_scheme", false, &scheme));
  if (flag && !json_is_null(flag)) CRN_TRY(crn_build_bool(json, where, "add_prefix_space", &add_prefix));
  if (strcmp(scheme, "first") && strcmp(scheme, "never") && strcmp(scheme, "always")) {
    return CRN_FAIL(UNSUPPORTED, "%s: prepend_scheme '%s', expected first, never or always", where, scheme);
  }
  step->drop_first = strcmp(scheme, "never") != 0;
  if (!add_prefix && step->drop_first) {
    return CRN_FAIL(CORRUPT, "%s: add_prefix_space is false but prepend_scheme is '%s', expected 'never'", where, scheme);
  }
  return CAIRN_OK;
}

static cairn_status load_fields(crn_build *build, const json_t *json, const char *where, crn_decoder *step) {
  switch (step->kind) {
    case CRN_DECODER_STRIP:
      CRN_TRY(crn_build_char(build, json, where, "content", &step->code));
      CRN_TRY(load_count(json, where, "start", &step->start));
      return load_count(json, where, "stop", &step->stop);
    case CRN_DECODER_REPLACE:
      CRN_TRY(crn_build_pattern(build, json, where, &step->regex, &step->literal));
      return crn_build_view(build, json, where, "content", true, &step->content);
    case CRN_DECODER_METASPACE:
      return load_metaspace(build, json, where, step);
    case CRN_DECODER_WORDPIECE:
      CRN_TRY(crn_build_view(build, json, where, "prefix", true, &step->content));
      return crn_build_bool(json, where, "cleanup", &step->cleanup);
    case CRN_DECODER_CTC:
      CRN_TRY(crn_build_view(build, json, where, "pad_token", true, &step->content));
      CRN_TRY(crn_build_view(build, json, where, "word_delimiter_token", true, &step->delimiter));
      return crn_build_bool(json, where, "cleanup", &step->cleanup);
    case CRN_DECODER_BPE:
      return crn_build_view(build, json, where, "suffix", true, &step->content);
    default:
      return CAIRN_OK;
  }
}

static cairn_status load_leaf(crn_build *build, const json_t *json, const char *type) {
  static const struct {
    const char *name;
    crn_decoder_kind kind;
  } kinds[] = {
      {"ByteLevel", CRN_DECODER_BYTE_LEVEL},
      {"ByteFallback", CRN_DECODER_BYTE_FALLBACK},
      {"Fuse", CRN_DECODER_FUSE},
      {"Strip", CRN_DECODER_STRIP},
      {"Replace", CRN_DECODER_REPLACE},
      {"Metaspace", CRN_DECODER_METASPACE},
      {"WordPiece", CRN_DECODER_WORDPIECE},
      {"CTC", CRN_DECODER_CTC},
      {"BPEDecoder", CRN_DECODER_BPE},
  };
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (strcmp(kinds[i].name, type)) continue;
    char where[160];
    snprintf(where, sizeof where, "%.100s: decoder %s", build->what, type);
    crn_decoder step = {.kind = kinds[i].kind};
    CRN_TRY(load_fields(build, json, where, &step));
    return add_decoder(build, &step);
  }
  return CRN_FAIL(UNSUPPORTED, "%s: decoder type '%s' is not known", build->what, type);
}

cairn_status crn_decoders_load(crn_build *build, const json_t *json) {
  build->tokenizer->has_decoder = json && !json_is_null(json);
  return crn_build_sequence(build, json, "decoder", "decoders", load_leaf);
}

cairn_status crn_decoders_add_byte_level(crn_build *build) {
  crn_decoder step = {.kind = CRN_DECODER_BYTE_LEVEL};
  return add_decoder(build, &step);
}

cairn_status crn_decoders_add_wordpiece(crn_build *build) {
  crn_decoder step = {.kind = CRN_DECODER_WORDPIECE, .content = {"##", 2}, .cleanup = true};
  return add_decoder(build, &step);
}

cairn_status crn_decoders_add_sentencepiece(crn_build *build, const crn_sentencepiece *sp) {
  crn_decoder step = {.kind = CRN_DECODER_SENTENCEPIECE, .bytes = sp->byte_fallback, .drop_all = sp->remove_extra};
  step.drop_first = sp->dummy_prefix || sp->remove_extra;
  return add_decoder(build, &step);
}

cairn_status crn_decoders_add_spm(crn_build *build, bool strip) {
  crn_decoder replace = {.kind = CRN_DECODER_REPLACE, .literal = {"\xe2\x96\x81", 3}, .content = {" ", 1}};
  crn_decoder bytes = {.kind = CRN_DECODER_BYTE_FALLBACK}, fuse = {.kind = CRN_DECODER_FUSE};
  crn_decoder cut = {.kind = CRN_DECODER_STRIP, .code = ' ', .start = 1};
  CRN_TRY(add_decoder(build, &replace));
  CRN_TRY(add_decoder(build, &bytes));
  CRN_TRY(add_decoder(build, &fuse));
  return strip ? add_decoder(build, &cut) : CAIRN_OK;
}
