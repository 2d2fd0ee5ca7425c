// Reading post-processors, truncation and padding of a file.
#include <stdio.h>
#include <string.h>

#include "text/tokenizer/postprocess.h"

static cairn_status add_processor(crn_build *build, const crn_processor *p) {
  cairn_tokenizer *t = build->tokenizer;
  CRN_TRY(crn_build_grow(build, (void **)&t->processors, t->n_processors, &t->processor_room, sizeof *p));
  t->processors[t->n_processors++] = *p;
  return CAIRN_OK;
}

static cairn_status check_id(const json_t *id, const char *where, int32_t *out) {
  if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX) {
    return CRN_FAIL(CORRUPT, "%s: an id must be a whole number from 0 to %d", where, INT32_MAX);
  }
  *out = (int32_t)json_integer_value(id);
  return CAIRN_OK;
}

enum { LONGEST_TEMPLATE = 1024 };

// --- templates ---------------------------------------------------------------------------------------------------------

static cairn_status load_special(crn_build *build, const json_t *tokens, const char *name, const char *where, crn_template_part *part) {
  const json_t *ids = json_object_get(json_object_get(tokens, name), "ids");
  int32_t *copy;
  if (!json_is_array(ids)) return CRN_FAIL(CORRUPT, "%s: 'special_tokens' has no ids for '%.80s'", where, name);
  part->n_ids = json_array_size(ids);
  if (part->n_ids > LONGEST_TEMPLATE) return CRN_FAIL(UNSUPPORTED, "%s: '%.80s' has more than %d ids", where, name, LONGEST_TEMPLATE);
  CRN_TRY(crn_arena_array(&build->tokenizer->arena, part->n_ids, sizeof *copy, &copy));
  part->ids = copy;
  for (size_t i = 0; i < part->n_ids; i++) CRN_TRY(check_id(json_array_get(ids, i), where, &copy[i]));
  return CAIRN_OK;
}

static cairn_status load_part(crn_build *build, const json_t *json, const json_t *tokens, const char *where, bool pair,
                              crn_template_part *part) {
  const json_t *sequence = json_object_get(json, "Sequence"), *special = json_object_get(json, "SpecialToken");
  const json_t *body = sequence ? sequence : special;
  const char *id;
  if (!json_is_object(body) || json_object_size(json) != 1) {
    return CRN_FAIL(CORRUPT, "%s: a part must be {\"Sequence\": …} or {\"SpecialToken\": …}", where);
  }
  CRN_TRY(crn_json_string(body, where, "id", true, &id));
  CRN_TRY(check_id(json_object_get(body, "type_id"), where, &part->type));
  part->sequence = -1;
  if (special) return load_special(build, tokens, id, where, part);
  part->sequence = !strcmp(id, "B");
  if (strcmp(id, "A") && strcmp(id, "B")) return CRN_FAIL(CORRUPT, "%s: sequence '%.80s', expected A or B", where, id);
  if (part->sequence && !pair) return CRN_FAIL(CORRUPT, "%s: 'single' uses sequence B, which is there for pairs only", where);
  return CAIRN_OK;
}

static cairn_status load_parts(crn_build *build, const json_t *json, const char *where, bool pair, crn_processor *p) {
  const json_t *list = json_object_get(json, pair ? "pair" : "single"), *tokens = json_object_get(json, "special_tokens");
  crn_template_part *parts;
  size_t added = 0;
  if (!json_is_array(list)) return CRN_FAIL(CORRUPT, "%s: '%s' must be an array", where, pair ? "pair" : "single");
  if (!json_is_object(tokens)) return CRN_FAIL(CORRUPT, "%s: 'special_tokens' must be an object", where);
  size_t n = json_array_size(list);
  if (n > LONGEST_TEMPLATE) return CRN_FAIL(UNSUPPORTED, "%s: a template of more than %d parts", where, LONGEST_TEMPLATE);
  CRN_TRY(crn_arena_array(&build->tokenizer->arena, n, sizeof *parts, &parts));
  for (size_t i = 0; i < n; i++) {
    CRN_TRY(load_part(build, json_array_get(list, i), tokens, where, pair, &parts[i]));
    added += parts[i].n_ids;
  }
  *(pair ? &p->pair : &p->single) = parts;
  *(pair ? &p->n_pair : &p->n_single) = n;
  *(pair ? &p->pair_added : &p->single_added) = added;
  return CAIRN_OK;
}

// --- the others ----------------------------------------------------------------------------------------------------------

static cairn_status load_named(const json_t *json, const char *where, const char *key, int32_t *out) {
  const json_t *v = json_object_get(json, key);
  if (!json_is_array(v) || json_array_size(v) != 2 || !json_is_string(json_array_get(v, 0))) {
    return CRN_FAIL(CORRUPT, "%s: '%s' must be [token, id]", where, key);
  }
  return check_id(json_array_get(v, 1), where, out);
}

static cairn_status load_leaf(crn_build *build, const json_t *json, const char *type) {
  static const char *const names[] = {"TemplateProcessing", "BertProcessing", "RobertaProcessing", "ByteLevel"};
  char where[160];
  snprintf(where, sizeof where, "%.100s: post_processor %.40s", build->what, type);
  for (int i = 0; i < 4; i++) {
    if (strcmp(type, names[i])) continue;
    crn_processor p = {.kind = (crn_processor_kind)i};
    if (p.kind == CRN_PROCESSOR_TEMPLATE) {
      CRN_TRY(load_parts(build, json, where, false, &p));
      CRN_TRY(load_parts(build, json, where, true, &p));
    } else if (p.kind != CRN_PROCESSOR_BYTE_LEVEL) {
      CRN_TRY(load_named(json, where, "cls", &p.cls));
      CRN_TRY(load_named(json, where, "sep", &p.sep));
    }
    if (p.kind == CRN_PROCESSOR_ROBERTA || p.kind == CRN_PROCESSOR_BYTE_LEVEL) {
      p.trim_offsets = p.add_prefix = true;
      CRN_TRY(crn_json_bool(json, where, "trim_offsets", false, &p.trim_offsets));
      CRN_TRY(crn_json_bool(json, where, "add_prefix_space", false, &p.add_prefix));
    }
    return add_processor(build, &p);
  }
  return CRN_FAIL(UNSUPPORTED, "%s: post_processor type '%s' is not known", build->what, type);
}

cairn_status crn_processors_load(crn_build *build, const json_t *json) {
  return crn_build_sequence(build, json, "post_processor", "processors", load_leaf);
}

static cairn_status add_token_part(crn_build *build, crn_template_part *parts, size_t *n, int32_t id, int32_t type) {
  int32_t *copy;
  if (id < 0) return CAIRN_OK;
  CRN_TRY(crn_arena_array(&build->tokenizer->arena, 1, sizeof *copy, &copy));
  *copy = id;
  parts[(*n)++] = (crn_template_part){.sequence = -1, .type = type, .ids = copy, .n_ids = 1};
  return CAIRN_OK;
}

cairn_status crn_processors_add_bos_eos(crn_build *build, int32_t bos, int32_t eos) {
  crn_processor p = {.kind = CRN_PROCESSOR_TEMPLATE};
  CRN_TRY(crn_arena_array(&build->tokenizer->arena, 6, sizeof *p.pair, &p.pair));
  for (int sequence = 0; sequence < 2; sequence++) {
    CRN_TRY(add_token_part(build, p.pair, &p.n_pair, bos, sequence));
    p.pair[p.n_pair++] = (crn_template_part){.sequence = sequence, .type = sequence};
    CRN_TRY(add_token_part(build, p.pair, &p.n_pair, eos, sequence));
    if (sequence == 0) p.n_single = p.n_pair;
  }
  p.single = p.pair;
  p.single_added = p.n_single - 1;
  p.pair_added = p.n_pair - 2;
  return add_processor(build, &p);
}

cairn_status crn_processors_add_frame(crn_build *build, int32_t cls, int32_t sep) {
  crn_processor p = {.kind = CRN_PROCESSOR_BERT, .cls = cls, .sep = sep};
  return add_processor(build, &p);
}

// --- truncation and padding ----------------------------------------------------------------------------------------------

static cairn_status load_size(const json_t *v, const char *where, const char *key, size_t *out) {
  if (!json_is_integer(v) || json_integer_value(v) < 0) return CRN_FAIL(CORRUPT, "%s: '%s' must be a whole number from 0 on", where, key);
  *out = (size_t)json_integer_value(v);
  return CAIRN_OK;
}

static cairn_status load_direction(const json_t *json, const char *where, bool required, bool *out_left) {
  const char *name = required ? NULL : "Right";
  CRN_TRY(crn_json_string(json, where, "direction", required, &name));
  *out_left = !strcmp(name, "Left");
  if (strcmp(name, "Left") && strcmp(name, "Right"))
    return CRN_FAIL(UNSUPPORTED, "%s: direction '%.40s', expected Left or Right", where, name);
  return CAIRN_OK;
}

static cairn_status load_truncation(crn_build *build, const json_t *json) {
  crn_truncation *t = &build->tokenizer->truncation;
  static const char *const names[] = {"LongestFirst", "OnlyFirst", "OnlySecond"};
  const char *strategy;
  char where[160];
  snprintf(where, sizeof where, "%.120s: truncation", build->what);
  if (!json || json_is_null(json)) return CAIRN_OK;
  CRN_TRY(crn_json_string(json, where, "strategy", true, &strategy));
  CRN_TRY(load_direction(json, where, false, &t->left));
  CRN_TRY(load_size(json_object_get(json, "max_length"), where, "max_length", &t->max_length));
  CRN_TRY(load_size(json_object_get(json, "stride"), where, "stride", &t->stride));
  for (int i = 0; i < 3; i++) {
    if (strcmp(strategy, names[i])) continue;
    t->strategy = i;
    t->active = true;
    return CAIRN_OK;
  }
  return CRN_FAIL(UNSUPPORTED, "%s: strategy '%.40s', expected LongestFirst, OnlyFirst or OnlySecond", where, strategy);
}

static cairn_status load_padding(crn_build *build, const json_t *json) {
  enum { LONGEST = 1 << 24 };
  crn_padding *p = &build->tokenizer->padding;
  char where[160];
  snprintf(where, sizeof where, "%.120s: padding", build->what);
  if (!json || json_is_null(json)) return CAIRN_OK;
  if (!json_is_object(json)) return CRN_FAIL(CORRUPT, "%s must be an object or null", where);
  const json_t *strategy = json_object_get(json, "strategy"), *multiple = json_object_get(json, "pad_to_multiple_of");
  const json_t *fixed = json_object_get(strategy, "Fixed");
  if (fixed) {
    p->fixed = true;
    CRN_TRY(load_size(fixed, where, "Fixed", &p->length));
  } else if (!json_is_string(strategy) || strcmp(json_string_value(strategy), "BatchLongest")) {
    return CRN_FAIL(UNSUPPORTED, "%s: strategy must be \"BatchLongest\" or {\"Fixed\": length}", where);
  }
  if (multiple && !json_is_null(multiple)) CRN_TRY(load_size(multiple, where, "pad_to_multiple_of", &p->multiple));
  if (p->length > LONGEST || p->multiple > LONGEST) return CRN_FAIL(UNSUPPORTED, "%s to more than %d tokens", where, LONGEST);
  CRN_TRY(load_direction(json, where, true, &p->left));
  CRN_TRY(check_id(json_object_get(json, "pad_id"), where, &p->id));
  CRN_TRY(check_id(json_object_get(json, "pad_type_id"), where, &p->type));
  p->active = true;
  return CAIRN_OK;
}

cairn_status crn_limits_load(crn_build *build, const json_t *root) {
  CRN_TRY(load_truncation(build, json_object_get(root, "truncation")));
  return load_padding(build, json_object_get(root, "padding"));
}
