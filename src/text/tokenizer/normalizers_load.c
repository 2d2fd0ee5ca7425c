// Reading the normalizers of a file.
#include <stdio.h>
#include <string.h>

#include "text/tokenizer/normalizers.h"

cairn_status crn_normalizers_add(crn_build *build, const crn_normalizer *n) {
  cairn_tokenizer *t = build->tokenizer;
  CRN_TRY(crn_build_grow(build, (void **)&t->normalizers, t->n_normalizers, &t->normalizer_room, sizeof *n));
  t->normalizers[t->n_normalizers++] = *n;
  return CAIRN_OK;
}

static cairn_status load_bert(const json_t *json, const char *where, crn_normalizer *n) {
  const json_t *accents = json_object_get(json, "strip_accents");
  CRN_TRY(crn_build_bool(json, where, "clean_text", &n->clean));
  CRN_TRY(crn_build_bool(json, where, "handle_chinese_chars", &n->chinese));
  CRN_TRY(crn_build_bool(json, where, "lowercase", &n->lowercase));
  // Accents go along with case unless the file says otherwise.
  n->accents = n->lowercase;
  return !accents || json_is_null(accents) ? CAIRN_OK : crn_build_bool(json, where, "strip_accents", &n->accents);
}

static cairn_status load_fields(crn_build *build, const json_t *json, const char *where, crn_normalizer *n) {
  crn_view map;
  switch (n->kind) {
    case CRN_NORMALIZER_STRIP:
      CRN_TRY(crn_build_bool(json, where, "strip_left", &n->left));
      return crn_build_bool(json, where, "strip_right", &n->right);
    case CRN_NORMALIZER_REPLACE:
      CRN_TRY(crn_build_pattern(build, json, where, &n->regex, NULL));
      return crn_build_view(build, json, where, "content", true, &n->content);
    case CRN_NORMALIZER_PREPEND:
      return crn_build_view(build, json, where, "prepend", true, &n->content);
    case CRN_NORMALIZER_PRECOMPILED:
      CRN_TRY(crn_build_view(build, json, where, "precompiled_charsmap", true, &map));
      return crn_charsmap_load(build, map.text, map.bytes, where, &n->map);
    case CRN_NORMALIZER_BERT:
      return load_bert(json, where, n);
    default:
      return CAIRN_OK;
  }
}

static cairn_status load_leaf(crn_build *build, const json_t *json, const char *type) {
  static const struct {
    const char *name;
    crn_normalizer_kind kind;
  } kinds[] = {
      {"NFC", CRN_NORMALIZER_NFC},
      {"NFD", CRN_NORMALIZER_NFD},
      {"NFKC", CRN_NORMALIZER_NFKC},
      {"NFKD", CRN_NORMALIZER_NFKD},
      {"Lowercase", CRN_NORMALIZER_LOWERCASE},
      {"StripAccents", CRN_NORMALIZER_STRIP_ACCENTS},
      {"Strip", CRN_NORMALIZER_STRIP},
      {"Replace", CRN_NORMALIZER_REPLACE},
      {"Prepend", CRN_NORMALIZER_PREPEND},
      {"Precompiled", CRN_NORMALIZER_PRECOMPILED},
      {"BertNormalizer", CRN_NORMALIZER_BERT},
      {"Bert", CRN_NORMALIZER_BERT},
      {"Nmt", CRN_NORMALIZER_NMT},
      {"ByteLevel", CRN_NORMALIZER_BYTE_LEVEL},
  };
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (strcmp(kinds[i].name, type)) continue;
    char where[160];
    snprintf(where, sizeof where, "%.100s: normalizer %s", build->what, type);
    crn_normalizer n = {.kind = kinds[i].kind};
    CRN_TRY(load_fields(build, json, where, &n));
    return crn_normalizers_add(build, &n);
  }
  return CRN_FAIL(UNSUPPORTED, "%s: normalizer type '%s' is not known", build->what, type);
}

cairn_status crn_normalizers_load(crn_build *build, const json_t *json) {
  return crn_build_sequence(build, json, "normalizer", "normalizers", load_leaf);
}
