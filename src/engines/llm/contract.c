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

static bool is_float_type(cairn_dtype t) { return t == CAIRN_F16 || t == CAIRN_F32 || t == CAIRN_BF16; }

static cairn_status check_index_input(const cairn_descriptor *d, const char *what) {
  if (d->is_image || !is_index_type(d->dtype))
    return CRN_FAIL(UNSUPPORTED, "input '%s' should hold %s as int32, found %s", d->name, what, cairn_dtype_name(d->dtype));
  if (d->rank != 2 || (d->shape[0] != 1 && d->shape[0] != CAIRN_DYNAMIC)) {
    return CRN_FAIL(UNSUPPORTED, "input '%s' should have the shape [1, n], found rank %d and batch %lld", d->name, d->rank,
                    (long long)(d->rank ? d->shape[0] : 0));
  }
  return CAIRN_OK;
}

static cairn_status check_embeds(const cairn_descriptor *d) {
  if (d->is_image || !is_float_type(d->dtype) || d->rank != 3 || (d->shape[0] != 1 && d->shape[0] != CAIRN_DYNAMIC) || d->shape[2] < 1)
    return CRN_FAIL(UNSUPPORTED, "input '%s' should hold embeddings of the shape [1, n, width] as a float type, found %s of rank %d",
                    d->name, cairn_dtype_name(d->dtype), d->rank);
  return CAIRN_OK;
}

// --- caches that are plain inputs -----------------------------------------------------------------------------------

// The text behind the first of some prefixes; NULL when none fits.
static const char *behind(const char *name, const char *const *prefixes) {
  for (; *prefixes; prefixes++) {
    size_t n = strlen(*prefixes);
    if (strncmp(name, *prefixes, n) == 0) return name + n;
  }
  return NULL;
}

// The output that goes with an input of the past: "past_k" with "present_k", "past_key_values.0.key" with "present.0.key".
static const cairn_descriptor *present_of(const cairn_function_info *f, const cairn_descriptor *past) {
  static const char *const kPast[] = {"past_key_values", "past_", "past.", NULL}, *const kPresent[] = {
                                                                                      "present_key_values", "present_", "present", "new_",
                                                                                      "updated_",           NULL};
  const char *key = behind(past->name, kPast);
  for (int i = 0; key && i < f->n_outputs; i++) {
    const cairn_descriptor *d = &f->outputs[i];
    const char *other = behind(d->name, kPresent);
    if (other && strcmp(other + strspn(other, "._"), key + strspn(key, "._")) == 0 && d->dtype == past->dtype && d->rank == past->rank)
      return d;
  }
  return NULL;
}

static cairn_status take_past(const cairn_descriptor *past, const cairn_descriptor *present, crn_llm_contract *c) {
  if (c->n_states == CRN_LLM_MAX_CACHES) return CRN_FAIL(UNSUPPORTED, "more than %d caches are plain inputs", (int)CRN_LLM_MAX_CACHES);
  crn_llm_state *s = &c->states[c->n_states];
  *s = (crn_llm_state){.descriptor = past, .kind = CAIRN_STATE_KV_CACHE, .axis = -1, .output = present};
  for (int i = 0; i < past->rank; i++) {
    if (past->shape[i] != CAIRN_DYNAMIC) continue;
    if (s->axis >= 0)
      return CRN_FAIL(UNSUPPORTED, "cache '%s' has two dynamic dims (%d and %d): expected one, of the positions", past->name, s->axis, i);
    s->axis = i;
  }
  if (s->axis < 0)
    return CRN_FAIL(UNSUPPORTED, "cache '%s' is an input of fixed size: expected a dynamic dim, of the positions", past->name);
  for (int i = 0; i < past->rank; i++) {
    if (i != s->axis && present->shape[i] != past->shape[i])
      return CRN_FAIL(UNSUPPORTED, "dim %d of the caches '%s' and '%s' differs", i, past->name, present->name);
  }
  s->is_dynamic = true;
  c->n_states++;
  c->host_cache = c->has_dynamic_kv = true;
  return CAIRN_OK;
}

// --- all inputs -----------------------------------------------------------------------------------------------------

// Inputs that are neither ids nor positions: caches, or a value for every token.
static cairn_status take_others(const cairn_function_info *f, crn_llm_contract *c) {
  text_buffer names;
  for (int i = 0; i < f->n_inputs; i++) {
    const cairn_descriptor *d = &f->inputs[i], *present;
    if (d == c->ids || d == c->embeds || d == c->positions) continue;
    if ((present = present_of(f, d))) {
      CRN_TRY(take_past(d, present, c));
      continue;
    }
    int64_t tokens = d->rank >= 2 ? d->shape[1] : 0;
    bool is_per_token = !d->is_image && d->rank >= 2 && (d->shape[0] == 1 || d->shape[0] == CAIRN_DYNAMIC) &&
                        (tokens == CAIRN_DYNAMIC || (c->query && tokens == c->query));
    for (int k = 2; k < d->rank; k++) is_per_token &= d->shape[k] > 0;
    if (!is_per_token || c->n_extras == CRN_LLM_MAX_EXTRAS) {
      return CRN_FAIL(UNSUPPORTED,
                      "function '%s': input '%s' is neither token ids, positions, a cache with an output of its own, nor a value for every "
                      "token ([1, n, ...]); its inputs are [%s]",
                      f->name, d->name, names_of(f->inputs, f->n_inputs, &names));
    }
    c->extras[c->n_extras++] = d;
  }
  return CAIRN_OK;
}

static const cairn_descriptor *first_other(const cairn_function_info *f, const cairn_descriptor *taken) {
  for (int i = 0; i < f->n_inputs; i++) {
    if (&f->inputs[i] != taken && is_index_type(f->inputs[i].dtype)) return &f->inputs[i];
  }
  return NULL;
}

static cairn_status find_tokens(const cairn_function_info *f, crn_llm_contract *c) {
  static const char *const kIds[] = {"input_ids", "in_new_token_ids", "tokens", "input_tokens", NULL};
  static const char *const kEmbeds[] = {"inputs_embeds", "input_embeds", "inputs_embedding", "input_embeddings", "embeddings", NULL};
  static const char *const kPositions[] = {"position_ids", "positions", "cache_position", NULL};
  text_buffer names;
  c->ids = find(f->inputs, f->n_inputs, kIds);
  c->embeds = c->ids ? NULL : find(f->inputs, f->n_inputs, kEmbeds);
  c->positions = find(f->inputs, f->n_inputs, kPositions);
  if (!c->ids && !c->embeds) c->ids = first_other(f, c->positions);
  if (!c->positions) c->positions = first_other(f, c->ids);
  if (c->ids || c->embeds) return CAIRN_OK;
  return CRN_FAIL(UNSUPPORTED, "function '%s': expected 2 inputs (token ids and positions), got %d: [%s]", f->name, f->n_inputs,
                  names_of(f->inputs, f->n_inputs, &names));
}

static cairn_status check_lengths(crn_llm_contract *c) {
  const cairn_descriptor *tokens = c->ids ? c->ids : c->embeds;
  int64_t query = tokens->shape[1], length = c->positions ? c->positions->shape[1] : CAIRN_DYNAMIC;
  c->query = query == CAIRN_DYNAMIC ? 0 : query;
  c->one_token = query == 1;
  c->current_position = c->positions && length == 1;
  if (query == 0) return CRN_FAIL(UNSUPPORTED, "input '%s' takes no tokens", tokens->name);
  if (length == CAIRN_DYNAMIC || (length == 1 && c->one_token)) return CAIRN_OK;
  return CRN_FAIL(UNSUPPORTED, "input '%s' takes exactly %lld positions: expected any number of them", c->positions->name,
                  (long long)length);
}

static cairn_status read_inputs(const cairn_function_info *f, crn_llm_contract *c) {
  text_buffer names;
  CRN_TRY(find_tokens(f, c));
  if (c->ids) CRN_TRY(check_index_input(c->ids, "token ids"));
  if (c->embeds) CRN_TRY(check_embeds(c->embeds));
  if (c->positions) CRN_TRY(check_index_input(c->positions, "positions"));
  CRN_TRY(check_lengths(c));
  CRN_TRY(take_others(f, c));
  c->stateless = !c->host_cache && !f->n_states;
  if (!c->positions && !c->stateless) {
    return CRN_FAIL(UNSUPPORTED, "function '%s': expected 2 inputs (token ids and positions), got %d: [%s]", f->name, f->n_inputs,
                    names_of(f->inputs, f->n_inputs, &names));
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
  // Many functions take ids and give floats; without states only the name tells that these are logits.
  if (c->stateless && !find(f->outputs, f->n_outputs, kLogits)) {
    return CRN_FAIL(UNSUPPORTED, "function '%s': expected %d to %d states, or none and an output named 'logits'; got none and [%s]",
                    f->name, (int)CRN_LLM_MIN_STATES, (int)CRN_LLM_MAX_STATES, names_of(f->outputs, f->n_outputs, &names));
  }
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
  if (rows != CAIRN_DYNAMIC && rows != 1 && rows != c->query) {
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

// A state that has a value for each row of a cache (the scales of a quantised one) is a part of it: equal in all dims up to the rows.
static bool is_part_of_cache(const crn_llm_state *s, const crn_llm_contract *c) {
  const cairn_descriptor *d = s->descriptor;
  for (int i = 0; i < c->n_states; i++) {
    const crn_llm_state *cache = &c->states[i];
    if (cache == s || cache->kind == CAIRN_STATE_FIXED || cache->axis < 1 || d->rank != cache->descriptor->rank) continue;
    if (memcmp(d->shape, cache->descriptor->shape, (size_t)(cache->axis + 1) * sizeof *d->shape) == 0) return true;
  }
  return false;
}

static cairn_status read_states(const cairn_function_info *f, const cairn_bundle *bundle, crn_llm_contract *c) {
  text_buffer names;
  if (c->stateless || (c->host_cache && !f->n_states)) return CAIRN_OK;
  if (c->host_cache)
    return CRN_FAIL(UNSUPPORTED, "function '%s' has caches as inputs and %d states: expected one kind or the other", f->name, f->n_states);
  if (f->n_states < CRN_LLM_MIN_STATES || f->n_states > CRN_LLM_MAX_STATES) {
    return CRN_FAIL(UNSUPPORTED, "function '%s': expected %d to %d states, got %d: [%s]", f->name, (int)CRN_LLM_MIN_STATES,
                    (int)CRN_LLM_MAX_STATES, f->n_states, names_of(f->states, f->n_states, &names));
  }
  c->n_states = f->n_states;
  for (int i = 0; i < f->n_states; i++) {
    crn_llm_state *s = &c->states[i];
    CRN_TRY(read_state(&f->states[i], f->n_states, bundle, s));
  }
  for (int i = 0; i < f->n_states; i++) {
    crn_llm_state *s = &c->states[i];
    bool is_told = bundle && cairn_bundle_state_kind(bundle, s->descriptor->name) != CAIRN_STATE_UNKNOWN;
    if (s->kind == CAIRN_STATE_FIXED && !is_told && s->descriptor->rank >= 4 && is_part_of_cache(s, c)) s->kind = CAIRN_STATE_SLIDING_CACHE;
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

// The host-cache contract finds the logits among the caches that come back.
static cairn_status read_all(const cairn_function_info *function, const cairn_bundle *bundle, crn_llm_contract *c) {
  CRN_TRY(read_inputs(function, c));
  CRN_TRY(read_logits(function, c));
  if (c->stateless && c->n_extras)
    return CRN_FAIL(UNSUPPORTED, "function '%s' keeps no state and has further inputs ('%s'): expected token ids and positions only",
                    function->name, c->extras[0]->name);
  if (c->stateless && c->query) {
    return CRN_FAIL(UNSUPPORTED, "function '%s' keeps no state and takes exactly %lld tokens: expected any number, the whole sequence",
                    function->name, (long long)c->query);
  }
  return read_states(function, bundle, c);
}

cairn_status crn_llm_contract_read(const cairn_function_info *function, const cairn_bundle *bundle, crn_llm_contract *out_contract) {
  memset(out_contract, 0, sizeof *out_contract);
  return read_all(function, bundle, out_contract);
}

static bool same_descriptor(const cairn_descriptor *a, const cairn_descriptor *b) {
  return strcmp(a->name, b->name) == 0 && a->dtype == b->dtype && a->rank == b->rank &&
         memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape) == 0;
}

cairn_status crn_llm_contract_check_pair(const cairn_function_info *prefill, const crn_llm_contract *a, const crn_llm_contract *b) {
  const char *what = NULL;
  if (a->n_states != b->n_states) what = "the number of its states";
  for (int i = 0; !what && i < a->n_states; i++) {
    bool is_there = false;
    for (int k = 0; k < b->n_states; k++) is_there |= same_descriptor(a->states[i].descriptor, b->states[k].descriptor);
    if (!is_there) what = a->states[i].descriptor->name;
  }
  if (a->vocab_size != b->vocab_size || a->logits->dtype != b->logits->dtype) what = b->logits->name;
  if (a->n_extras != b->n_extras || !a->ids != !b->ids || a->host_cache != b->host_cache) what = "the kind of its inputs";
  for (int i = 0; !what && i < a->n_extras; i++) {
    if (strcmp(a->extras[i]->name, b->extras[i]->name) != 0 || a->extras[i]->dtype != b->extras[i]->dtype) what = b->extras[i]->name;
  }
  if (!what) return CAIRN_OK;
  return CRN_FAIL(UNSUPPORTED, "function '%s' for prompts does not go with the main function: %s differs", prefill->name, what);
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
