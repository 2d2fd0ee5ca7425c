// Tokenizers made from parts, as the GGUF importer does.
#include "text/tokenizer/spec.h"

#include "text/tokenizer/test_support.h"

/// A specification and the memory it borrows.
typedef struct parts {
  crn_tokenizer_spec spec;
  crn_token_text *tokens, *merges;
  char **joined;  ///< merges written as pairs, put together
  float *scores;
  int32_t *types;
} parts;

static crn_token_text text_of(const json_t *v) { return (crn_token_text){json_string_value(v), json_string_length(v)}; }

static void free_parts(parts *p) {
  for (size_t i = 0; p->joined && i < p->spec.n_merges; i++) free(p->joined[i]);
  free(p->joined);
  free(p->tokens);
  free(p->merges);
  free(p->scores);
  free(p->types);
}

static void merges_of_json(const json_t *merges, parts *p) {
  size_t i;
  json_t *v;
  p->spec.n_merges = json_array_size(merges);
  p->spec.merges = p->merges = calloc(p->spec.n_merges, sizeof *p->merges);
  p->joined = calloc(p->spec.n_merges, sizeof *p->joined);
  json_array_foreach(merges, i, v) {
    p->merges[i] = text_of(v);
    if (!json_is_array(v)) continue;
    int n = asprintf(&p->joined[i], "%s %s", json_string_value(json_array_get(v, 0)), json_string_value(json_array_get(v, 1)));
    p->merges[i] = (crn_token_text){p->joined[i], (size_t)n};
  }
}

/// The parts of a byte-level tokenizer.json in the order a GGUF file has them: added tokens that the vocabulary lacks follow it.
static void parts_of_json(const json_t *root, parts *p) {
  const json_t *model = json_object_get(root, "model"), *vocab = json_object_get(model, "vocab"),
               *added = json_object_get(root, "added_tokens");
  const char *text;
  json_t *v;
  size_t i, n = json_object_size(vocab), room = n + json_array_size(added);
  crn_tokenizer_spec_initialize(&p->spec);
  p->spec.tokens = p->tokens = calloc(room, sizeof *p->tokens);
  p->spec.types = p->types = calloc(room, sizeof *p->types);
  for (i = 0; i < n; i++) p->types[i] = CRN_TOKEN_NORMAL;
  json_object_foreach((json_t *)vocab, text, v) p->tokens[json_integer_value(v)] = (crn_token_text){text, strlen(text)};
  json_array_foreach(added, i, v) {
    const json_t *content = json_object_get(v, "content"), *known = json_object_get(vocab, json_string_value(content));
    size_t id = known ? (size_t)json_integer_value(known) : n++;
    p->tokens[id] = text_of(content);
    p->types[id] = json_is_true(json_object_get(v, "special")) ? CRN_TOKEN_CONTROL : CRN_TOKEN_USER_DEFINED;
  }
  p->spec.n_tokens = n;
  merges_of_json(json_object_get(model, "merges"), p);
}

/// The texts of a case file must give the ids the tokenizer.json gives.
static void same_as_file(const char *folder, const char *cases, const char *pre) {
  static test_ids got;
  cairn_context *context = test_context();
  cairn_tokenizer *t;
  parts p = {0};
  char path[1024];
  snprintf(path, sizeof path, "%s/tokenizer.json", folder);
  json_t *root = test_json_file(path);
  parts_of_json(root, &p);
  p.spec.pre = pre;
  if (crn_tokenizer_create_from_spec(context, &p.spec, &t) != CAIRN_OK) fail_msg("%s", cairn_last_error()->message);
  snprintf(path, sizeof path, "%s/%s", folder, cases);
  FILE *f = fopen(path, "r");
  char *line = NULL;
  size_t room = 0, n = 0;
  assert_non_null(f);
  while (getline(&line, &room, f) > 0) {
    json_t *c = json_loads(line, JSON_ALLOW_NUL, NULL), *text = json_object_get(c, "text");
    if (text && !json_object_get(c, "pair")) {
      assert_int_equal(cairn_tokenizer_encode(t, json_string_value(text), json_string_length(text), true, got.ids, TEST_MAX_IDS, &got.n),
                       CAIRN_OK);
      if (!test_same_ids(got.ids, got.n, json_object_get(c, "ids"))) fail_msg("%s", line);
      assert_true(test_decodes_to(t, &got, false, json_object_get(c, "decoded")));
      assert_true(test_decodes_to(t, &got, true, json_object_get(c, "decoded_skip_special")));
      n++;
    }
    json_decref(c);
  }
  assert_true(n > 30);
  free(line);
  fclose(f);
  cairn_tokenizer_release(t);
  free_parts(&p);
  json_decref(root);
  cairn_context_release(context);
}

static void smollm_equals_its_file(void **state) {
  (void)state;
  same_as_file(CAIRN_TEST_DATA "/tokenizer/smollm2_cut", "cases.jsonl", "smollm");
}

static void named_pre_tokenizers(void **state) {
  (void)state;
  static const char *const pairs[][2] = {
      {"smollm2", "smollm"}, {"gpt2", "gpt-2"}, {"o200k", "gpt-4o"}, {"deepseek", "deepseek-v3"}, {"qwen", "qwen2"}};
  if (!test_file_exists(CAIRN_SHARED_DATA "/corpus/tokenizer/summary.json")) skip();
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    char folder[1024];
    snprintf(folder, sizeof folder, "%s/corpus/tokenizer/%s", CAIRN_SHARED_DATA, pairs[i][0]);
    same_as_file(folder, "cases.public.jsonl", pairs[i][1]);
  }
}

static void load_spm(json_t *file, parts *p) {
  const json_t *tokens = json_object_get(file, "tokens");
  size_t n = json_array_size(tokens);
  crn_tokenizer_spec_initialize(&p->spec);
  p->tokens = calloc(n, sizeof *p->tokens);
  p->scores = calloc(n, sizeof *p->scores);
  p->types = calloc(n, sizeof *p->types);
  for (size_t i = 0; i < n; i++) {
    p->tokens[i] = text_of(json_array_get(tokens, i));
    p->scores[i] = (float)json_number_value(json_array_get(json_object_get(file, "scores"), i));
    p->types[i] = (int32_t)json_integer_value(json_array_get(json_object_get(file, "types"), i));
  }
  p->spec.model = CRN_TOKENIZER_MODEL_SPM;
  p->spec.n_tokens = n;
  p->spec.tokens = p->tokens;
  p->spec.scores = p->scores;
  p->spec.types = p->types;
  p->spec.bos_id = 1;
  p->spec.eos_id = 2;
  p->spec.unk_id = 0;
}

static void sentencepiece_vocabulary(void **state) {
  (void)state;
  static test_ids got;
  cairn_context *context = test_context();
  cairn_tokenizer *t;
  parts p = {0};
  json_t *file = test_json_file(CAIRN_TEST_DATA "/tokenizer/spm.json"), *c;
  size_t i;
  load_spm(file, &p);
  assert_int_equal(crn_tokenizer_create_from_spec(context, &p.spec, &t), CAIRN_OK);
  json_array_foreach(json_object_get(file, "cases"), i, c) {
    const json_t *text = json_object_get(c, "text");
    assert_int_equal(cairn_tokenizer_encode(t, json_string_value(text), json_string_length(text), true, got.ids, TEST_MAX_IDS, &got.n),
                     CAIRN_OK);
    if (!test_same_ids(got.ids, got.n, json_object_get(c, "ids"))) fail_msg("case %zu", i);
    assert_true(test_decodes_to(t, &got, true, json_object_get(c, "decoded")));
    assert_true(test_streams_to(t, &got, true, json_object_get(c, "decoded")));
  }
  assert_int_equal(i, 40);
  assert_string_equal(cairn_tokenizer_role(t, "eos_token"), "</s>");
  cairn_tokenizer_release(t);
  // With both ends added, and a token the text itself names.
  p.spec.add_bos = p.spec.add_eos = true;
  assert_int_equal(crn_tokenizer_create_from_spec(context, &p.spec, &t), CAIRN_OK);
  assert_int_equal(cairn_tokenizer_encode(t, "<tool>", 6, true, got.ids, TEST_MAX_IDS, &got.n), CAIRN_OK);
  assert_int_equal(got.n, 3);
  assert_int_equal(got.ids[0], 1);
  assert_int_equal(got.ids[1], cairn_tokenizer_id(t, "<tool>"));
  assert_int_equal(got.ids[2], 2);
  cairn_tokenizer_release(t);
  free_parts(&p);
  json_decref(file);
  cairn_context_release(context);
}

static void refused(void **state) {
  (void)state;
  cairn_context *context = test_context();
  cairn_tokenizer *t;
  const crn_token_text tokens[] = {{"a", 1}, {"b", 1}, {"ab", 2}}, merges[] = {{"a b", 3}, {"ab", 2}, {"a c", 3}};
  const crn_token_text broken[] = {{"\xff", 1}};
  crn_tokenizer_spec s;
  crn_tokenizer_model model;
  crn_tokenizer_spec_initialize(&s);
  assert_int_equal(crn_tokenizer_create_from_spec(context, &s, &t), CAIRN_INVALID_ARGUMENT);
  s.tokens = tokens;
  s.n_tokens = 3;
  s.merges = merges;
  s.n_merges = 1;
  assert_int_equal(crn_tokenizer_create_from_spec(context, &s, &t), CAIRN_OK);
  cairn_tokenizer_release(t);
  s.pre = "no such splitter";
  assert_int_equal(crn_tokenizer_create_from_spec(context, &s, &t), CAIRN_UNSUPPORTED);
  assert_non_null(strstr(cairn_last_error()->message, "no such splitter"));
  s.pre = "gpt-2";
  s.n_merges = 2;
  assert_int_equal(crn_tokenizer_create_from_spec(context, &s, &t), CAIRN_CORRUPT);
  s.merges = merges + 2;
  s.n_merges = 1;
  assert_int_equal(crn_tokenizer_create_from_spec(context, &s, &t), CAIRN_CORRUPT);
  s.n_merges = 0;
  s.bos_id = 3;
  assert_int_equal(crn_tokenizer_create_from_spec(context, &s, &t), CAIRN_CORRUPT);
  s.bos_id = -1;
  s.add_bos = true;
  assert_int_equal(crn_tokenizer_create_from_spec(context, &s, &t), CAIRN_CORRUPT);
  s.add_bos = false;
  s.model = CRN_TOKENIZER_MODEL_SPM;
  assert_int_equal(crn_tokenizer_create_from_spec(context, &s, &t), CAIRN_INVALID_ARGUMENT);
  s.model = CRN_TOKENIZER_MODEL_BPE;
  s.tokens = broken;
  s.n_tokens = 1;
  assert_int_equal(crn_tokenizer_create_from_spec(context, &s, &t), CAIRN_CORRUPT);
  assert_int_equal(crn_tokenizer_model_by_name("plamo2", &model), CAIRN_UNSUPPORTED);
  assert_int_equal(crn_tokenizer_model_by_name("llama", &model), CAIRN_OK);
  assert_int_equal(model, CRN_TOKENIZER_MODEL_SPM);
  cairn_context_release(context);
}

static void every_name_has_usable_patterns(void **state) {
  (void)state;
  static const char *const names[] = {"default",
                                      "gpt-2",
                                      "smollm",
                                      "llama-bpe",
                                      "dbrx",
                                      "qwen2",
                                      "hunyuan",
                                      "gpt-4o",
                                      "tekken",
                                      "deepseek-llm",
                                      "deepseek-coder",
                                      "deepseek-v3",
                                      "falcon",
                                      "bloom",
                                      "viking",
                                      "bailingmoe",
                                      "seed-coder",
                                      "jais-2",
                                      "minicpm5",
                                      "qwen35",
                                      "ufakzeka",
                                      "laguna",
                                      "granite-embed-multi-97m",
                                      "tiny_aya",
                                      "youtu",
                                      "kimi-k2",
                                      "spark2_5",
                                      "afmoe",
                                      "exaone-moe",
                                      "superbpe",
                                      "chameleon",
                                      "glm5",
                                      "exaone4",
                                      "mellum2",
                                      "talkie",
                                      "solar-open"};
  cairn_context *context = test_context();
  crn_token_text tokens[256];
  char room[256][4];
  crn_tokenizer_spec s;
  crn_tokenizer_spec_initialize(&s);
  for (int i = 0; i < 256; i++) {
    // The byte-level alphabet: every code point below U+0144 that a byte can have, and some more, which do no harm.
    uint32_t code = (uint32_t)(i < 0x44 ? 0x100 + i : i < 0x7f ? i - 0x23 : i);
    size_t n = 1;
    if (code < 0x80) {
      room[i][0] = (char)code;
    } else {
      room[i][0] = (char)(0xc0 | code >> 6);
      room[i][1] = (char)(0x80 | (code & 0x3f));
      n = 2;
    }
    tokens[i] = (crn_token_text){room[i], n};
  }
  s.tokens = tokens;
  s.n_tokens = 256;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    cairn_tokenizer *t;
    int32_t ids[64];
    size_t n;
    s.pre = names[i];
    if (crn_tokenizer_create_from_spec(context, &s, &t) != CAIRN_OK) fail_msg("%s: %s", names[i], cairn_last_error()->message);
    assert_int_equal(cairn_tokenizer_encode(t, "It's 123\r\n  \xe6\xbc\xa2", 15, true, ids, 64, &n), CAIRN_OK);
    assert_true(n >= 13);
    cairn_tokenizer_release(t);
  }
  cairn_context_release(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(smollm_equals_its_file),         cmocka_unit_test(named_pre_tokenizers),
      cmocka_unit_test(sentencepiece_vocabulary),       cmocka_unit_test(refused),
      cmocka_unit_test(every_name_has_usable_patterns),
  };
  return cmocka_run_group_tests_name("tokenizer specifications", tests, NULL, NULL);
}
