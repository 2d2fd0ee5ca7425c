#include "import/gguf/vocabulary.h"

#include <string.h>

#include "base/context.h"
#include "import/gguf/private.h"
#include "text/tokenizer/spec.h"

enum { MAX_EOS_IDS = 16 };

// Lists handed to the tokenizer, which are views of the file; dropped afterwards.
typedef struct vocabulary {
  crn_gguf *file;  ///< held
  cairn_context *context;
  crn_arena arena;
  crn_tokenizer_spec spec;
  cairn_tokenizer *tokenizer;
  crn_imported_text text;
} vocabulary;

cairn_status crn_gguf_copy_text(crn_imported_model *model, crn_gguf_string text, const char **out_text) {
  return crn_arena_strndup(&model->arena, text.data, text.bytes, out_text);
}

static bool is_text(crn_gguf_string s, const char *text) { return s.bytes == strlen(text) && !memcmp(s.data, text, s.bytes); }

static cairn_status read_texts(vocabulary *v, const char *key, bool required, size_t *out_n, const crn_token_text **out_texts) {
  const crn_gguf_value *list;
  crn_token_text *texts;
  CRN_TRY(crn_gguf_get_array(v->file, key, required, CRN_GGUF_STRING, &list));
  if (!list) return CAIRN_OK;
  CRN_TRY(crn_arena_array(&v->arena, list->array.n, sizeof *texts, &texts));
  const unsigned char *at = list->array.data;
  for (size_t i = 0; i < list->array.n; i++) {
    crn_gguf_value item;
    at = crn_gguf_item(CRN_GGUF_STRING, at, &item);
    texts[i] = (crn_token_text){item.s.data, item.s.bytes};
  }
  *out_n = list->array.n;
  *out_texts = texts;
  return CAIRN_OK;
}

static cairn_status check_length(const vocabulary *v, const char *key, const crn_gguf_value *list) {
  if (list->array.n == v->spec.n_tokens) return CAIRN_OK;
  return CRN_FAIL(CORRUPT, "%s: '%s' has %zu items, there are %zu tokens", crn_gguf_what(v->file), key, list->array.n, v->spec.n_tokens);
}

static cairn_status read_scores(vocabulary *v) {
  static const char key[] = "tokenizer.ggml.scores";
  const crn_gguf_value *list;
  float *scores;
  CRN_TRY(crn_gguf_get_array(v->file, key, false, CRN_GGUF_FLOAT32, &list));
  if (!list) return CAIRN_OK;
  CRN_TRY(check_length(v, key, list));
  CRN_TRY(crn_arena_array(&v->arena, list->array.n, sizeof *scores, &scores));
  const unsigned char *at = list->array.data;
  for (size_t i = 0; i < list->array.n; i++) {
    crn_gguf_value item;
    at = crn_gguf_item(CRN_GGUF_FLOAT32, at, &item);
    scores[i] = (float)item.f;
  }
  v->spec.scores = scores;
  return CAIRN_OK;
}

static cairn_status read_types(vocabulary *v) {
  static const char key[] = "tokenizer.ggml.token_type";
  const crn_gguf_value *list = crn_gguf_find(v->file, key);
  int32_t *types;
  if (!list) return CAIRN_OK;
  bool is_int = list->kind == CRN_GGUF_ARRAY && (list->array.kind == CRN_GGUF_INT32 || list->array.kind == CRN_GGUF_UINT32);
  if (!is_int) return CRN_FAIL(CORRUPT, "%s: '%s' must be a list of 32-bit integers", crn_gguf_what(v->file), key);
  CRN_TRY(check_length(v, key, list));
  CRN_TRY(crn_arena_array(&v->arena, list->array.n, sizeof *types, &types));
  for (size_t i = 0; i < list->array.n; i++) types[i] = (int32_t)crn_gguf_load(list->array.data + 4 * i, 4);
  v->spec.types = types;
  return CAIRN_OK;
}

// An id of the vocabulary, -1 when the key is absent and there is no `fallback`.
static cairn_status read_id(const vocabulary *v, const char *key, int32_t fallback, int32_t *out) {
  int64_t id = fallback;
  bool is_there = crn_gguf_find(v->file, key) != NULL;
  CRN_TRY(crn_gguf_get_int(v->file, key, false, &id));
  // Writers put 2^32 - 1 where they mean "none". A conventional id that a small vocabulary lacks is none as well.
  if (id == UINT32_MAX || (!is_there && (uint64_t)id >= v->spec.n_tokens)) id = -1;
  if (id < -1 || id >= (int64_t)v->spec.n_tokens) {
    return CRN_FAIL(CORRUPT, "%s: '%s' is %lld, there are %zu tokens", crn_gguf_what(v->file), key, (long long)id, v->spec.n_tokens);
  }
  *out = (int32_t)id;
  return CAIRN_OK;
}

// Byte-level tokenizers begin a text with a token only when told to. Files of these families do so although many of them
// do not have the key.
static bool begins_with_bos(crn_gguf_string pre) {
  static const char *const names[] = {"llama-bpe",
                                      "llama3",
                                      "llama-v3",
                                      "falcon3",
                                      "falcon-h1",
                                      "pixtral",
                                      "midm-2.0",
                                      "lfm2",
                                      "tekken",
                                      "chameleon",
                                      "jina-v5-nano",
                                      "gemma4",
                                      "granite-embed-multi-311m"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (is_text(pre, names[i])) return true;
  }
  return false;
}

/// What a file means that leaves a key out.
typedef struct defaults {
  bool add_bos, add_eos, add_space_prefix;
  int32_t bos_id, eos_id, unk_id;
} defaults;

static defaults find_defaults(crn_tokenizer_model model, crn_gguf_string pre) {
  switch (model) {
    case CRN_TOKENIZER_MODEL_SPM:
      return (defaults){.add_bos = true, .add_space_prefix = true, .bos_id = 1, .eos_id = 2, .unk_id = 0};
    case CRN_TOKENIZER_MODEL_WPM:
      return (defaults){.add_bos = true, .add_eos = true, .bos_id = 101, .eos_id = 102, .unk_id = 100};
    case CRN_TOKENIZER_MODEL_UGM:
      return (defaults){.add_eos = true, .add_space_prefix = true, .bos_id = -1, .eos_id = 1, .unk_id = 2};
    case CRN_TOKENIZER_MODEL_PLAIN_BPE:
      return (defaults){.add_bos = true, .bos_id = -1, .eos_id = -1, .unk_id = -1};
    default:
      return (defaults){.add_bos = begins_with_bos(pre), .bos_id = -1, .eos_id = -1, .unk_id = -1};
  }
}

// BERT's files name the tokens around a text after what they are there; older ones have only these names.
static cairn_status read_frame_ids(vocabulary *v) {
  crn_tokenizer_spec *s = &v->spec;
  CRN_TRY(read_id(v, "tokenizer.ggml.cls_token_id", s->bos_id, &s->bos_id));
  CRN_TRY(read_id(v, "tokenizer.ggml.seperator_token_id", s->eos_id, &s->eos_id));
  CRN_TRY(crn_gguf_get_bool(v->file, "tokenizer.ggml.normalizer.lowercase", false, &s->lowercase));
  s->strip_accents = s->lowercase;
  CRN_TRY(crn_gguf_get_bool(v->file, "tokenizer.ggml.normalizer.strip_accents", false, &s->strip_accents));
  s->add_bos = s->bos_id >= 0;
  s->add_eos = s->eos_id >= 0;
  return CAIRN_OK;
}

static cairn_status read_charsmap(vocabulary *v) {
  static const char key[] = "tokenizer.ggml.precompiled_charsmap";
  const crn_gguf_value *list = crn_gguf_find(v->file, key);
  if (!list) return CAIRN_OK;
  bool is_bytes = list->kind == CRN_GGUF_ARRAY && (list->array.kind == CRN_GGUF_INT8 || list->array.kind == CRN_GGUF_UINT8);
  if (!is_bytes) return CRN_FAIL(CORRUPT, "%s: '%s' must be a list of bytes", crn_gguf_what(v->file), key);
  v->spec.charsmap = list->array.data;
  v->spec.charsmap_bytes = list->array.n;
  return CAIRN_OK;
}

static cairn_status read_options(vocabulary *v, crn_gguf_string pre) {
  crn_tokenizer_spec *s = &v->spec;
  const defaults d = find_defaults(s->model, pre);
  s->add_bos = d.add_bos;
  s->add_eos = d.add_eos;
  s->add_space_prefix = d.add_space_prefix;
  CRN_TRY(crn_gguf_get_bool(v->file, "tokenizer.ggml.add_bos_token", false, &s->add_bos));
  CRN_TRY(crn_gguf_get_bool(v->file, "tokenizer.ggml.add_eos_token", false, &s->add_eos));
  CRN_TRY(crn_gguf_get_bool(v->file, "tokenizer.ggml.add_space_prefix", false, &s->add_space_prefix));
  CRN_TRY(crn_gguf_get_bool(v->file, "tokenizer.ggml.remove_extra_whitespaces", false, &s->remove_extra_whitespaces));
  CRN_TRY(read_charsmap(v));
  CRN_TRY(read_id(v, "tokenizer.ggml.bos_token_id", d.bos_id, &s->bos_id));
  CRN_TRY(read_id(v, "tokenizer.ggml.eos_token_id", d.eos_id, &s->eos_id));
  CRN_TRY(read_id(v, "tokenizer.ggml.unknown_token_id", d.unk_id, &s->unk_id));
  if (s->model == CRN_TOKENIZER_MODEL_WPM) CRN_TRY(read_frame_ids(v));
  // Files of this family are known to say the opposite by mistake.
  if (s->model == CRN_TOKENIZER_MODEL_PLAIN_BPE) s->add_bos = true;
  if (s->bos_id < 0) s->add_bos = false;
  if (s->eos_id < 0) s->add_eos = false;
  return CAIRN_OK;
}

// --- ids that end a text ---------------------------------------------------------------------------------------------------

typedef struct id_list {
  int32_t ids[MAX_EOS_IDS];
  size_t n;
} id_list;

static void add_id(id_list *list, int32_t id) {
  if (id < 0 || list->n == MAX_EOS_IDS) return;
  for (size_t i = 0; i < list->n; i++) {
    if (list->ids[i] == id) return;
  }
  list->ids[list->n++] = id;
}

// Many files name one end only, often that of a text, while chats end with another token. Control tokens spelled like an
// end are therefore taken as one too.
static bool is_end_of_turn(const crn_token_text *t) {
  static const char *const names[] = {"<|eot_id|>", "<|eom_id|>",    "<|im_end|>",      "<|end|>",    "<|endoftext|>", "<|end_of_text|>",
                                      "</s>",       "<end_of_turn>", "<|end_of_turn|>", "<|return|>", "<|eot|>",       "<EOT>"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (t->bytes == strlen(names[i]) && !memcmp(t->data, names[i], t->bytes)) return true;
  }
  return false;
}

static bool is_control(const vocabulary *v, size_t i, const char *name) {
  const crn_token_text *t = &v->spec.tokens[i];
  return v->spec.types[i] == CRN_TOKEN_CONTROL && t->bytes == strlen(name) && !memcmp(t->data, name, t->bytes);
}

// Where answers are made of several messages, <|end|> only ends one of them; a call or a return ends the turn.
static bool has_messages(const vocabulary *v, int32_t *out_call_id) {
  bool returns = false;
  *out_call_id = -1;
  for (size_t i = 0; v->spec.types && i < v->spec.n_tokens; i++) {
    returns = returns || is_control(v, i, "<|return|>");
    if (is_control(v, i, "<|call|>")) *out_call_id = (int32_t)i;
  }
  return returns && *out_call_id >= 0;
}

static cairn_status read_end_ids(const vocabulary *v, crn_imported_model *model) {
  id_list list = {.n = 0};
  int32_t id;
  add_id(&list, v->spec.eos_id);
  CRN_TRY(read_id(v, "tokenizer.ggml.eot_token_id", -1, &id));
  add_id(&list, id);
  CRN_TRY(read_id(v, "tokenizer.ggml.eom_token_id", -1, &id));
  add_id(&list, id);
  bool messages = has_messages(v, &id);
  if (messages) add_id(&list, id);
  for (size_t i = 0; v->spec.types && i < v->spec.n_tokens; i++) {
    if (messages && is_control(v, i, "<|end|>")) continue;
    if (v->spec.types[i] == CRN_TOKEN_CONTROL && is_end_of_turn(&v->spec.tokens[i])) add_id(&list, (int32_t)i);
  }
  int32_t *copy;
  CRN_TRY(crn_arena_array(&model->arena, list.n, sizeof *copy, &copy));
  if (list.n) memcpy(copy, list.ids, list.n * sizeof *copy);
  model->eos_ids = copy;
  model->n_eos_ids = list.n;
  return CAIRN_OK;
}

// --- the whole -------------------------------------------------------------------------------------------------------------

static cairn_status read_lists(vocabulary *v, crn_gguf_string name, crn_imported_model *model) {
  crn_tokenizer_spec *s = &v->spec;
  crn_gguf_string pre = {NULL, 0};
  const char *name_copy;
  crn_tokenizer_spec_initialize(s);
  s->what = crn_gguf_what(v->file);
  CRN_TRY(crn_arena_strndup(&v->arena, name.data, name.bytes, &name_copy));
  CRN_TRY(crn_tokenizer_model_by_name(name_copy, &s->model));
  CRN_TRY(crn_gguf_get_string(v->file, "tokenizer.ggml.pre", false, &pre));
  if (pre.data) CRN_TRY(crn_arena_strndup(&v->arena, pre.data, pre.bytes, &s->pre));
  CRN_TRY(read_texts(v, "tokenizer.ggml.tokens", true, &s->n_tokens, &s->tokens));
  if (s->n_tokens > INT32_MAX) return CRN_FAIL(CORRUPT, "%s: %zu tokens", s->what, s->n_tokens);
  CRN_TRY(read_texts(v, "tokenizer.ggml.merges", false, &s->n_merges, &s->merges));
  CRN_TRY(read_scores(v));
  CRN_TRY(read_types(v));
  CRN_TRY(read_options(v, pre));
  model->bos_id = s->bos_id;
  model->eos_id = s->eos_id;
  model->add_bos = s->add_bos;
  model->add_eos = s->add_eos;
  return read_end_ids(v, model);
}

static cairn_status make_tokenizer(void *user) {
  vocabulary *v = user;
  return crn_tokenizer_create_from_spec(v->context, &v->spec, &v->tokenizer);
}

static void drop_vocabulary(void *user, cairn_tokenizer **out_tokenizer) {
  vocabulary *v = user;
  *out_tokenizer = v->tokenizer;
  crn_arena_deinitialize(&v->arena);
  crn_gguf_close(v->file);
  crn_free(&v->context->allocator, v, sizeof *v);
}

cairn_status crn_gguf_read_vocabulary(crn_gguf *f, bool beside, crn_imported_model *model) {
  crn_gguf_string name = {NULL, 0}, chat_template = {NULL, 0};
  vocabulary *v;
  CRN_TRY(crn_gguf_get_string(f, "tokenizer.chat_template", false, &chat_template));
  if (chat_template.data) CRN_TRY(crn_gguf_copy_text(model, chat_template, &model->chat_template));
  CRN_TRY(crn_gguf_get_string(f, "tokenizer.ggml.model", false, &name));
  if (!name.data || is_text(name, "none") || is_text(name, "no_vocab")) return CAIRN_OK;
  CRN_TRY(crn_alloc_zero(&model->context->allocator, sizeof *v, &v));
  v->file = f;
  v->context = model->context;
  crn_gguf_retain(f);
  crn_arena_initialize(&v->arena, &model->context->allocator);
  cairn_status status = read_lists(v, name, model);
  if (status == CAIRN_OK && beside) {
    v->text.user = v;
    v->text.finish = drop_vocabulary;
    model->making = &v->text;
    crn_task_start(&v->text.task, make_tokenizer, v);
    return CAIRN_OK;
  }
  if (status == CAIRN_OK) status = make_tokenizer(v);
  drop_vocabulary(v, &model->tokenizer);
  return status;
}
