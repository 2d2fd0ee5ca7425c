#include "engines/llm/contract.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/status.h"

// --- structure ------------------------------------------------------------------------------------------------------

static bool has_name(const char *const *names, int n, const char *wanted) {
  for (int i = 0; i < n; i++) {
    if (strcmp(names[i], wanted) == 0) return true;
  }
  return false;
}

crn_llm_structure crn_llm_structure_of(const char *const *names, int n_names) {
  bool has_extend = false;
  for (int i = 0; i < n_names; i++) has_extend |= strncmp(names[i], "extend", 6) == 0;
  if (has_extend && has_name(names, n_names, "load_embeddings")) return CRN_LLM_STATIC_SHAPE;
  if (has_name(names, n_names, "image_encode") && has_name(names, n_names, "text_encode") && has_name(names, n_names, "detect")) {
    return CRN_LLM_SEGMENTER;
  }
  return has_name(names, n_names, "main") ? CRN_LLM_DYNAMIC : CRN_LLM_UNKNOWN_STRUCTURE;
}

// --- inputs ---------------------------------------------------------------------------------------------------------

typedef struct text_buffer {
  char data[256];
} text_buffer;

// "a, b, c" of some descriptors, for messages.
static const char *names_of(const cairn_descriptor *d, int n, text_buffer *out) {
  size_t used = 0;
  out->data[0] = 0;
  for (int i = 0; i < n && used < sizeof out->data; i++) {
    int k = snprintf(out->data + used, sizeof out->data - used, "%s%s", i ? ", " : "", d[i].name);
    if (k < 0) break;
    used += (size_t)k;
  }
  return out->data;
}

static const cairn_descriptor *find(const cairn_descriptor *d, int n, const char *const *names) {
  for (; *names; names++) {
    for (int i = 0; i < n; i++) {
      if (strcmp(d[i].name, *names) == 0) return &d[i];
    }
  }
  return NULL;
}

static bool is_index_type(cairn_dtype t) { return t == CAIRN_SI32 || t == CAIRN_UI32 || t == CAIRN_SI64 || t == CAIRN_UI64; }

static cairn_status check_index_input(const cairn_descriptor *d, const char *what) {
  if (d->is_image || !is_index_type(d->dtype)) {
    bool is_float = !d->is_image && (d->dtype == CAIRN_F16 || d->dtype == CAIRN_F32 || d->dtype == CAIRN_BF16);
    return CRN_FAIL(UNSUPPORTED, "input '%s' should hold %s as int32, found %s%s", d->name, what, cairn_dtype_name(d->dtype),
                    is_float ? ": a decoder of embeddings needs the vision-language engine, which is not in this build" : "");
  }
  if (d->rank != 2 || (d->shape[0] != 1 && d->shape[0] != CAIRN_DYNAMIC)) {
    return CRN_FAIL(UNSUPPORTED, "input '%s' should have the shape [1, n], found rank %d and batch %lld", d->name, d->rank,
                    (long long)(d->rank ? d->shape[0] : 0));
  }
  return CAIRN_OK;
}

static cairn_status read_inputs(const cairn_function_info *f, crn_llm_contract *c) {
  static const char *const kIds[] = {"input_ids", "in_new_token_ids", "tokens", "input_tokens", NULL};
  static const char *const kPositions[] = {"position_ids", "positions", "cache_position", NULL};
  text_buffer names;
  if (f->n_inputs != 2) {
    return CRN_FAIL(UNSUPPORTED, "function '%s': expected 2 inputs (token ids and positions), got %d: [%s]", f->name, f->n_inputs,
                    names_of(f->inputs, f->n_inputs, &names));
  }
  c->ids = find(f->inputs, 2, kIds);
  c->positions = find(f->inputs, 2, kPositions);
  if (!c->ids) c->ids = c->positions == &f->inputs[0] ? &f->inputs[1] : &f->inputs[0];
  if (!c->positions) c->positions = c->ids == &f->inputs[0] ? &f->inputs[1] : &f->inputs[0];
  CRN_TRY(check_index_input(c->ids, "token ids"));
  CRN_TRY(check_index_input(c->positions, "positions"));
  int64_t query = c->ids->shape[1], length = c->positions->shape[1];
  c->one_token = query == 1;
  c->current_position = length == 1;
  if (query != 1 && query != CAIRN_DYNAMIC) {
    return CRN_FAIL(UNSUPPORTED, "input '%s' takes exactly %lld tokens: only models that take any number, or 1, can run here", c->ids->name,
                    (long long)query);
  }
  if (length != CAIRN_DYNAMIC && !(length == 1 && c->one_token)) {
    return CRN_FAIL(UNSUPPORTED, "input '%s' takes exactly %lld positions: expected any number of them", c->positions->name,
                    (long long)length);
  }
  return CAIRN_OK;
}

// --- output ---------------------------------------------------------------------------------------------------------

static cairn_status read_logits(const cairn_function_info *f, crn_llm_contract *c) {
  static const char *const kLogits[] = {"logits", "out_logits", NULL};
  text_buffer names;
  if (f->n_outputs < 1) return CRN_FAIL(UNSUPPORTED, "function '%s': expected at least 1 output, got 0", f->name);
  c->logits = find(f->outputs, f->n_outputs, kLogits);
  if (!c->logits && f->n_outputs == 1) c->logits = &f->outputs[0];
  if (!c->logits) {
    return CRN_FAIL(UNSUPPORTED, "function '%s': which of its %d outputs are the logits? Expected one named 'logits', got [%s]", f->name,
                    f->n_outputs, names_of(f->outputs, f->n_outputs, &names));
  }
  const cairn_descriptor *d = c->logits;
  if (d->is_image || (d->dtype != CAIRN_F16 && d->dtype != CAIRN_BF16 && d->dtype != CAIRN_F32)) {
    return CRN_FAIL(UNSUPPORTED, "unsupported logits type: '%s' is %s; float16, bfloat16 and float32 are supported", d->name,
                    cairn_dtype_name(d->dtype));
  }
  if (d->rank < 2 || d->rank > 3 || (d->rank == 3 && d->shape[0] != 1 && d->shape[0] != CAIRN_DYNAMIC)) {
    return CRN_FAIL(UNSUPPORTED, "output '%s' should have the shape [1, n, vocabulary], found rank %d", d->name, d->rank);
  }
  c->vocab_size = d->shape[d->rank - 1];
  if (c->vocab_size < 1 || c->vocab_size > INT32_MAX) {
    return CRN_FAIL(UNSUPPORTED, "output '%s' has no fixed vocabulary in its last dim (%lld)", d->name, (long long)c->vocab_size);
  }
  int64_t rows = d->shape[d->rank - 2];
  if (rows != CAIRN_DYNAMIC && rows != 1) {
    return CRN_FAIL(UNSUPPORTED, "output '%s' has exactly %lld rows: expected one for every token, or one", d->name, (long long)rows);
  }
  c->last_row_only = rows == 1 && !c->one_token;
  return CAIRN_OK;
}

// --- states ---------------------------------------------------------------------------------------------------------

static bool contains_ignoring_case(const char *text, const char *part) { return strcasestr(text, part) != NULL; }

static cairn_state_kind classify(const crn_llm_state *s, int n_states, const cairn_bundle *bundle) {
  const char *name = s->descriptor->name;
  cairn_state_kind told = bundle ? cairn_bundle_state_kind(bundle, name) : CAIRN_STATE_UNKNOWN;
  if (told != CAIRN_STATE_UNKNOWN) return told;
  if (n_states == 2 || s->is_dynamic) return CAIRN_STATE_KV_CACHE;
  if (contains_ignoring_case(name, "cache") || contains_ignoring_case(name, "kv")) return CAIRN_STATE_SLIDING_CACHE;
  return CAIRN_STATE_FIXED;
}

static cairn_status read_state(const cairn_descriptor *d, int n_states, const cairn_bundle *bundle, crn_llm_state *s) {
  if (d->is_image) return CRN_FAIL(UNSUPPORTED, "state '%s' is an image", d->name);
  if (d->rank < 1) return CRN_FAIL(UNSUPPORTED, "state '%s' is a single value: expected an array", d->name);
  *s = (crn_llm_state){.descriptor = d, .axis = -1};
  for (int i = 0; i < d->rank; i++) {
    if (d->shape[i] != CAIRN_DYNAMIC) continue;
    if (s->axis >= 0)
      return CRN_FAIL(UNSUPPORTED, "state '%s' has two dynamic dims (%d and %d): expected one, of the positions", d->name, s->axis, i);
    s->axis = i;
  }
  s->is_dynamic = s->axis >= 0;
  if (!s->is_dynamic) s->axis = d->rank >= 2 ? d->rank - 2 : 0;
  s->size = s->is_dynamic ? 0 : d->shape[s->axis];
  s->kind = classify(s, n_states, bundle);
  return CAIRN_OK;
}

static cairn_status read_states(const cairn_function_info *f, const cairn_bundle *bundle, crn_llm_contract *c) {
  text_buffer names;
  if (f->n_states < CRN_LLM_MIN_STATES || f->n_states > CRN_LLM_MAX_STATES) {
    return CRN_FAIL(UNSUPPORTED, "function '%s': expected %d to %d states, got %d: [%s]", f->name, (int)CRN_LLM_MIN_STATES,
                    (int)CRN_LLM_MAX_STATES, f->n_states, names_of(f->states, f->n_states, &names));
  }
  c->n_states = f->n_states;
  for (int i = 0; i < f->n_states; i++) {
    crn_llm_state *s = &c->states[i];
    CRN_TRY(read_state(&f->states[i], f->n_states, bundle, s));
    if (s->kind == CAIRN_STATE_FIXED) c->hybrid = true;
    if (s->kind != CAIRN_STATE_KV_CACHE) continue;
    if (s->is_dynamic) {
      c->has_dynamic_kv = true;
    } else if (!c->fixed_rows || s->size < c->fixed_rows) {
      c->fixed_rows = s->size;
    }
  }
  return CAIRN_OK;
}

cairn_status crn_llm_contract_read(const cairn_function_info *function, const cairn_bundle *bundle, crn_llm_contract *out_contract) {
  *out_contract = (crn_llm_contract){0};
  CRN_TRY(read_inputs(function, out_contract));
  CRN_TRY(read_logits(function, out_contract));
  return read_states(function, bundle, out_contract);
}

bool crn_llm_can_cut(const crn_llm_contract *contract, int64_t processed) {
  for (int i = 0; i < contract->n_states; i++) {
    const crn_llm_state *s = &contract->states[i];
    if (s->kind == CAIRN_STATE_FIXED) return false;
    // A window that has begun to drop rows cannot bring them back.
    if (s->kind == CAIRN_STATE_SLIDING_CACHE && !s->is_dynamic && processed > s->size) return false;
  }
  return true;
}
