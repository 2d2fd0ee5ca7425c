#include "engines/llm/key.h"

#include <string.h>

#include "cairn/session.h"

// What the first line of a key begins with; the digest of the model's files follows.
#define MODEL_WORD "model "

static cairn_status add_state(crn_str *key, const crn_llm_states *states, int i) {
  const crn_llm_state *s = &states->contract->states[i];
  const cairn_descriptor *d = s->descriptor;
  CRN_TRY(crn_str_printf(key, "state %s %s %s [", d->name, cairn_state_kind_text(s->kind), cairn_dtype_name(d->dtype)));
  const bool has_rows = !crn_llm_state_is_whole(s);
  for (int k = 0; k < d->rank; k++) {
    // The number of rows is the sequence's own matter.
    if (has_rows && k == s->axis) {
      CRN_TRY(crn_str_printf(key, "%srows", k ? ", " : ""));
    } else {
      CRN_TRY(crn_str_printf(key, "%s%lld", k ? ", " : "", (long long)cairn_ndarray_shape(states->arrays[i].array)[k]));
    }
  }
  return crn_str_puts(key, "]\n");
}

static cairn_status add_table(crn_str *key, const crn_llm_table *t) {
  unsigned char digest[CRN_SHA256_BYTES];
  char hex[2 * CRN_SHA256_BYTES + 1];
  const size_t bytes = (size_t)cairn_ndarray_count(t->table) * cairn_dtype_bytes(cairn_ndarray_dtype(t->table));
  CRN_TRY(crn_sha256(cairn_ndarray_data(t->table), bytes, digest));
  crn_sha256_hex(digest, hex);
  return crn_str_printf(key, "table %s %s\n", t->input, hex);
}

static cairn_status make(const cairn_llm *llm, crn_str *key) {
  const crn_llm_model *m = llm->model;
  unsigned char digest[CRN_SHA256_BYTES];
  char hex[2 * CRN_SHA256_BYTES + 1];
  CRN_TRY(crn_llm_source_identify(m->context, &m->source, digest));
  crn_sha256_hex(digest, hex);
  CRN_TRY(crn_str_printf(key, MODEL_WORD "%s\nfunction %s\nvocabulary %lld\n", hex, cairn_function_describe(m->function)->name,
                         (long long)m->contract.vocab_size));
  CRN_TRY(crn_str_printf(key, "precision %s\ncomposites %s\nstored %s\n", cairn_precision_text(cairn_function_get_precision(m->function)),
                         m->settings.composites == CAIRN_COMPOSITES_BODY ? "body" : "fast", llm->states.is_int8 ? "int8" : "as computed"));
  for (int i = 0; i < CRN_LLM_MAX_EXTRAS; i++) {
    if (m->tables[i].table) CRN_TRY(add_table(key, &m->tables[i]));
  }
  for (int i = 0; i < m->contract.n_states; i++) CRN_TRY(add_state(key, &llm->states, i));
  return CAIRN_OK;
}

cairn_status crn_llm_key(const cairn_llm *llm, const crn_str **out_key) {
  crn_llm_model *m = llm->model;
  cairn_status status = CAIRN_OK;
  pthread_mutex_lock(&m->lock);
  if (!m->key.size) {
    status = make(llm, &m->key);
    if (status != CAIRN_OK) crn_str_clear(&m->key);
  }
  pthread_mutex_unlock(&m->lock);
  *out_key = &m->key;
  return status;
}

cairn_status cairn_llm_identify(const cairn_llm *llm, char *out_text) {
  const crn_str *key;
  if (!llm) return CRN_FAIL(INVALID_ARGUMENT, "the model of a sequence is identified: none was given");
  if (!out_text) return CRN_FAIL(INVALID_ARGUMENT, "a place for the identity is needed: out_text is NULL");
  CRN_TRY(crn_llm_key(llm, &key));
  memcpy(out_text, key->data + strlen(MODEL_WORD), CAIRN_LLM_IDENTITY_BYTES - 1);
  out_text[CAIRN_LLM_IDENTITY_BYTES - 1] = 0;
  return CAIRN_OK;
}

static size_t line_length(const char *text, size_t n) {
  const char *end = memchr(text, '\n', n);
  return end ? (size_t)(end - text) : n;
}

void crn_llm_key_difference(const crn_str *own, const char *other, size_t other_bytes, char *out_text, size_t capacity) {
  const char *a = own->data, *b = other;
  size_t a_left = own->size, b_left = other_bytes;
  while (a_left && b_left) {
    const size_t n = line_length(a, a_left), m = line_length(b, b_left);
    if (n != m || memcmp(a, b, n) != 0) break;
    const size_t step = n < a_left && n < b_left ? n + 1 : n;
    a += step;
    b += step;
    a_left -= step;
    b_left -= step;
    if (step == n) break;
  }
  enum { SHOWN = 100 };
  const size_t n = line_length(a, a_left), m = line_length(b, b_left);
  snprintf(out_text, capacity, "'%.*s' there, '%.*s' here", (int)(m < SHOWN ? m : SHOWN), b, (int)(n < SHOWN ? n : SHOWN), a);
}
