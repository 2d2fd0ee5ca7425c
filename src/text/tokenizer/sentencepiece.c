// Reading tokenizer.model: the pieces, how they were trained to be found, how text is brought into their form.
#include "text/tokenizer/sentencepiece.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/wire.h"
#include "text/tokenizer/sentencepiece_beside.h"

/// A file as it is read.
typedef struct model_file {
  crn_build *build;
  crn_sentencepiece *sp;
  const char *what;
  crn_view *texts;  ///< by id
  float *scores;
  uint8_t *types;
  size_t n_pieces;
  int32_t algorithm;
  crn_view unk_surface, bos_piece, eos_piece, unk_piece, pad_piece;
  crn_view charsmap, denormalizer;
} model_file;

// --- fields ------------------------------------------------------------------------------------------------------------------

static cairn_status read_view(const crn_wire *w, const crn_wire_field *f, crn_view *out) {
  CRN_TRY(crn_wire_check_bytes(w, f));
  *out = (crn_view){(const char *)f->data, f->bytes};
  return CAIRN_OK;
}

static cairn_status read_piece(model_file *m, const crn_wire_field *message, size_t index) {
  crn_wire w = crn_wire_begin(message->data, message->bytes, m->what);
  crn_wire_field f;
  int32_t type = CRN_TOKEN_NORMAL;
  bool more;
  for (;;) {
    CRN_TRY(crn_wire_next(&w, &f, &more));
    if (!more) break;
    if (f.number == 1) CRN_TRY(read_view(&w, &f, &m->texts[index]));
    if (f.number == 2) CRN_TRY(crn_wire_float(&w, &f, &m->scores[index]));
    if (f.number == 3) CRN_TRY(crn_wire_int32(&w, &f, &type));
  }
  const crn_view *text = &m->texts[index];
  if (!text->bytes) return CRN_FAIL(CORRUPT, "%s: piece %zu is empty", m->what, index);
  // Decoders work on characters, so a piece must be made of whole ones.
  if (!crn_is_utf8(text->text, text->bytes)) return CRN_FAIL(CORRUPT, "%s: piece %zu is not UTF-8", m->what, index);
  if (isnan(m->scores[index])) return CRN_FAIL(CORRUPT, "%s: piece %zu has no number as score", m->what, index);
  if (type < CRN_TOKEN_NORMAL || type > CRN_TOKEN_BYTE) {
    return CRN_FAIL(UNSUPPORTED, "%s: piece %zu is of type %d, 1 to 6 expected", m->what, index, (int)type);
  }
  m->types[index] = (uint8_t)type;
  return CAIRN_OK;
}

static cairn_status read_trainer(model_file *m, const crn_wire_field *message) {
  crn_wire w = crn_wire_begin(message->data, message->bytes, m->what);
  crn_wire_field f;
  bool more;
  for (;;) {
    CRN_TRY(crn_wire_next(&w, &f, &more));
    if (!more) return CAIRN_OK;
    if (f.number == 3) CRN_TRY(crn_wire_int32(&w, &f, &m->algorithm));
    if (f.number == 24) CRN_TRY(crn_wire_bool(&w, &f, &m->sp->space_at_end));
    if (f.number == 35) CRN_TRY(crn_wire_bool(&w, &f, &m->sp->byte_fallback));
    if (f.number == 44) CRN_TRY(read_view(&w, &f, &m->unk_surface));
    if (f.number == 45) CRN_TRY(read_view(&w, &f, &m->unk_piece));
    if (f.number == 46) CRN_TRY(read_view(&w, &f, &m->bos_piece));
    if (f.number == 47) CRN_TRY(read_view(&w, &f, &m->eos_piece));
    if (f.number == 48) CRN_TRY(read_view(&w, &f, &m->pad_piece));
  }
}

static cairn_status read_normalizer(model_file *m, const crn_wire_field *message) {
  crn_wire w = crn_wire_begin(message->data, message->bytes, m->what);
  crn_wire_field f;
  bool more;
  for (;;) {
    CRN_TRY(crn_wire_next(&w, &f, &more));
    if (!more) return CAIRN_OK;
    if (f.number == 2) CRN_TRY(read_view(&w, &f, &m->charsmap));
    if (f.number == 3) CRN_TRY(crn_wire_bool(&w, &f, &m->sp->dummy_prefix));
    if (f.number == 4) CRN_TRY(crn_wire_bool(&w, &f, &m->sp->remove_extra));
    if (f.number == 5) CRN_TRY(crn_wire_bool(&w, &f, &m->sp->escape));
  }
}

static cairn_status read_denormalizer(model_file *m, const crn_wire_field *message) {
  crn_wire w = crn_wire_begin(message->data, message->bytes, m->what);
  crn_wire_field f;
  bool more;
  for (;;) {
    CRN_TRY(crn_wire_next(&w, &f, &more));
    if (!more) return CAIRN_OK;
    if (f.number == 2) CRN_TRY(read_view(&w, &f, &m->denormalizer));
  }
}

// The first walk counts the pieces, so that the second can store them.
static cairn_status count_pieces(model_file *m, crn_wire w) {
  crn_wire_field f;
  bool more;
  for (;;) {
    CRN_TRY(crn_wire_next(&w, &f, &more));
    if (!more) break;
    m->n_pieces += f.number == 1;
  }
  if (!m->n_pieces) return CRN_FAIL(CORRUPT, "%s has no pieces; is it a SentencePiece model?", m->what);
  if (m->n_pieces > CRN_MAX_TOKEN_ID) {
    return CRN_FAIL(UNSUPPORTED, "%s: %zu pieces, at most %d are supported", m->what, m->n_pieces, CRN_MAX_TOKEN_ID);
  }
  return CAIRN_OK;
}

static cairn_status read_file(model_file *m, const void *data, size_t bytes) {
  crn_arena *arena = &m->build->tokenizer->arena;
  crn_wire w = crn_wire_begin(data, bytes, m->what);
  crn_wire_field f;
  size_t n = 0;
  bool more;
  CRN_TRY(count_pieces(m, w));
  CRN_TRY(crn_arena_array(arena, m->n_pieces, sizeof *m->texts, &m->texts));
  CRN_TRY(crn_arena_array(arena, m->n_pieces, sizeof *m->scores, &m->scores));
  CRN_TRY(crn_arena_array(arena, m->n_pieces, sizeof *m->types, &m->types));
  for (;;) {
    CRN_TRY(crn_wire_next(&w, &f, &more));
    if (!more) return CAIRN_OK;
    if (f.number == 1 || f.number == 2 || f.number == 3 || f.number == 5) CRN_TRY(crn_wire_check_bytes(&w, &f));
    if (f.number == 1) CRN_TRY(read_piece(m, &f, n++));
    if (f.number == 2) CRN_TRY(read_trainer(m, &f));
    if (f.number == 3) CRN_TRY(read_normalizer(m, &f));
    if (f.number == 5) CRN_TRY(read_denormalizer(m, &f));
  }
}

// --- the tokenizer ---------------------------------------------------------------------------------------------------------

static bool is_piece(uint8_t type) { return type == CRN_TOKEN_NORMAL || type == CRN_TOKEN_USER_DEFINED || type == CRN_TOKEN_UNUSED; }

static cairn_status build_trie(model_file *m, bool user_only, crn_trie *trie) {
  crn_trie_key *keys;
  size_t n = 0;
  CRN_TRY(crn_alloc_array(m->build->allocator, m->n_pieces, sizeof *keys, &keys));
  for (size_t i = 0; i < m->n_pieces; i++) {
    bool wanted = user_only ? m->types[i] == CRN_TOKEN_USER_DEFINED : is_piece(m->types[i]);
    if (wanted) keys[n++] = (crn_trie_key){m->texts[i].text, (uint32_t)m->texts[i].bytes, (int32_t)i};
  }
  cairn_status status = crn_trie_build(trie, &m->build->tokenizer->arena, keys, n);
  crn_free(m->build->allocator, keys, m->n_pieces * sizeof *keys);
  return status;
}

static cairn_status set_vocabulary(model_file *m) {
  crn_build *build = m->build;
  cairn_tokenizer *t = build->tokenizer;
  CRN_TRY(crn_vocab_load_list(build, m->texts, m->n_pieces));
  t->model.unk_id = -1;
  for (size_t i = 0; i < m->n_pieces; i++) {
    const crn_view *text = &t->vocab.tokens[i];
    m->texts[i] = *text;  // the copy outlives the file
    if (crn_vocab_id(&t->vocab, text->text, text->bytes) != (int32_t)i) {
      return CRN_FAIL(CORRUPT, "%s: piece '%.80s' is there twice", m->what, text->text);
    }
    m->sp->has_unused = m->sp->has_unused || m->types[i] == CRN_TOKEN_UNUSED;
    if (m->types[i] == CRN_TOKEN_NORMAL) {
      m->sp->min_score = fminf(m->sp->min_score, m->scores[i]);
    }
    if (m->types[i] != CRN_TOKEN_UNKNOWN) continue;
    if (t->model.unk_id >= 0) return CRN_FAIL(CORRUPT, "%s has two unknown pieces", m->what);
    t->model.unk_id = (int32_t)i;
  }
  if (t->model.unk_id < 0 && !m->sp->byte_fallback) return CRN_FAIL(CORRUPT, "%s has no unknown piece", m->what);
  CRN_TRY(build_trie(m, true, &m->sp->user));
  return build_trie(m, false, &m->sp->pieces);
}

static cairn_status check_bytes(model_file *m) {
  const crn_model *model = &m->build->tokenizer->model;
  crn_model_find_bytes(m->build->tokenizer);
  for (size_t i = 0; i < m->n_pieces; i++) {
    if (m->types[i] != CRN_TOKEN_BYTE) continue;
    if (!m->sp->byte_fallback) return CRN_FAIL(CORRUPT, "%s: '%.80s' is a byte, but byte_fallback is off", m->what, m->texts[i].text);
  }
  for (int i = 0; i < 256 && m->sp->byte_fallback; i++) {
    int32_t id = model->byte_ids[i];
    if (id < 0 || m->types[id] != CRN_TOKEN_BYTE)
      return CRN_FAIL(CORRUPT, "%s: byte_fallback is on, but byte 0x%02X is missing", m->what, (unsigned)i);
  }
  return CAIRN_OK;
}

static cairn_status set_pipeline(model_file *m) {
  crn_build *build = m->build;
  cairn_tokenizer *t = build->tokenizer;
  crn_sentencepiece *sp = m->sp;
  if (m->algorithm < CRN_SP_UNIGRAM || m->algorithm > CRN_SP_CHAR) {
    return CRN_FAIL(UNSUPPORTED, "%s: model type %d, expected 1 (unigram), 2 (BPE), 3 (word) or 4 (char)", m->what, (int)m->algorithm);
  }
  if (m->denormalizer.bytes) return CRN_FAIL(UNSUPPORTED, "%s: a denormalizer (denormalizer_spec) is not supported", m->what);
  sp->algorithm = (crn_sp_algorithm)m->algorithm;
  sp->scores = m->scores;
  sp->types = m->types;
  t->model.kind = CRN_MODEL_SENTENCEPIECE;
  t->model.sp = sp;
  t->model.float_scores = m->scores;
  if (m->charsmap.bytes) CRN_TRY(crn_charsmap_copy(build, m->charsmap.text, m->charsmap.bytes, m->what, &sp->map));
  CRN_TRY(set_vocabulary(m));
  CRN_TRY(check_bytes(m));
  CRN_TRY(crn_normalizers_add(build, &(crn_normalizer){.kind = CRN_NORMALIZER_SENTENCEPIECE, .sp = sp}));
  return crn_decoders_add_sentencepiece(build, sp);
}

/// The id of a control piece, -1 when there is none of the name.
static int32_t control_id(const model_file *m, const crn_view *name, const char *otherwise) {
  crn_view text = name->bytes ? *name : (crn_view){otherwise, strlen(otherwise)};
  int32_t id = crn_vocab_id(&m->build->tokenizer->vocab, text.text, text.bytes);
  return id >= 0 && m->types[id] == CRN_TOKEN_CONTROL ? id : -1;
}

// Alone, a model is what SentencePiece's own library makes of it: control pieces give no text, the unknown piece gives its
// surface, and neither is looked for in a text.
static cairn_status finish_alone(model_file *m) {
  cairn_tokenizer *t = m->build->tokenizer;
  crn_view surface = m->unk_surface.text ? m->unk_surface : (crn_view){" \xe2\x81\x87 ", 5};
  if (!crn_is_utf8(surface.text, surface.bytes)) return CRN_FAIL(CORRUPT, "%s: the surface of the unknown piece is not UTF-8", m->what);
  CRN_TRY(crn_added_set(m->build, NULL, 0));
  CRN_TRY(crn_tokenizer_finish(m->build));
  if (t->model.unk_id >= 0) {
    crn_view *unknown = &t->entries[t->model.unk_id].decoded;
    unknown->bytes = surface.bytes;
    CRN_TRY(crn_arena_strndup(&t->arena, surface.text, surface.bytes, &unknown->text));
  }
  for (size_t i = 0; i < m->n_pieces; i++) {
    if (m->types[i] != CRN_TOKEN_CONTROL) continue;
    t->entries[i].decoded = (crn_view){"", 0};
    t->entries[i].special = t->entries[i].skipped = true;
  }
  return CAIRN_OK;
}

static cairn_status make(model_file *m, const void *data, size_t bytes, const char *folder) {
  cairn_tokenizer *t = m->build->tokenizer;
  CRN_TRY(read_file(m, data, bytes));
  CRN_TRY(set_pipeline(m));
  const int32_t ids[] = {control_id(m, &m->bos_piece, "<s>"), control_id(m, &m->eos_piece, "</s>"), t->model.unk_id,
                         control_id(m, &m->pad_piece, "<pad>")};
  bool beside = false;
  if (folder) CRN_TRY(crn_sentencepiece_load_beside(m->build, folder, m->types, ids[0], ids[1], &beside));
  CRN_TRY(beside ? crn_tokenizer_finish(m->build) : finish_alone(m));
  for (int i = 0; i < 4; i++) {
    if (ids[i] >= 0 && !t->roles[i]) t->roles[i] = t->vocab.tokens[ids[i]].text;
  }
  return CAIRN_OK;
}

cairn_status crn_sentencepiece_create(cairn_context *context, const void *data, size_t bytes, const char *what, const char *folder,
                                      cairn_tokenizer **out_tokenizer) {
  cairn_tokenizer *t;
  *out_tokenizer = NULL;
  CRN_TRY(crn_tokenizer_create_empty(context, &t));
  crn_build build = {.context = context, .allocator = t->allocator, .tokenizer = t, .what = what};
  model_file m = {.build = &build, .what = what, .algorithm = CRN_SP_UNIGRAM};
  cairn_status status = crn_arena_alloc(&t->arena, sizeof *m.sp, &m.sp);
  if (status == CAIRN_OK) {
    *m.sp = (crn_sentencepiece){.dummy_prefix = true, .remove_extra = true, .escape = true, .min_score = FLT_MAX};
    status = make(&m, data, bytes, folder);
  }
  if (status != CAIRN_OK) {
    cairn_tokenizer_release(t);
    return status;
  }
  *out_tokenizer = t;
  return CAIRN_OK;
}

cairn_status cairn_tokenizer_create_from_sentencepiece(cairn_context *context, const void *data, size_t bytes, const char *what,
                                                       cairn_tokenizer **out_tokenizer) {
  CRN_REQUIRE(out_tokenizer);
  *out_tokenizer = NULL;
  CRN_REQUIRE(context);
  CRN_REQUIRE_SOME(data, bytes);
  return crn_sentencepiece_create(context, data, bytes, what ? what : "tokenizer.model", NULL, out_tokenizer);
}
