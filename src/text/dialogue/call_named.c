/// Calls that are a name and arguments: Mistral's newer form, Gemma's call:name{…}.
#include <string.h>

#include "text/dialogue/internal.h"

enum { MAX_HEAD_BYTES = 512 };

static bool is_plain(const char *text, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if ((unsigned char)text[i] <= ' ' || strchr("[]{}<>()\"", text[i])) return false;
  }
  return n > 0;
}

static void trim(const char **text, size_t *n) {
  while (*n && crn_is_space((*text)[*n - 1])) --*n;
  while (*n && crn_is_space(**text)) {
    ++*text;
    --*n;
  }
}

static cairn_status set_text(crn_str *out, const char *text, size_t n) {
  crn_str_clear(out);
  return crn_str_append(out, text, n);
}

// --- Mistral --------------------------------------------------------------------------------------------------------

enum { MISTRAL_START, MISTRAL_HEAD, MISTRAL_ARGUMENTS };

// name, then maybe [CALL_ID] and an id, then maybe [ARGS].
static cairn_status read_head(cairn_dialogue *d, crn_step *step) {
  static const char kArguments[] = "[ARGS]", kId[] = "[CALL_ID]";
  crn_call *c = &d->call;
  const char *name = c->text.data, *id = "";
  size_t n = c->text.size, n_id = 0;
  trim(&name, &n);
  if (n >= strlen(kArguments) && !memcmp(name + n - strlen(kArguments), kArguments, strlen(kArguments))) n -= strlen(kArguments);
  const char *at = memmem(name, n, kId, strlen(kId));
  if (at) {
    id = at + strlen(kId);
    n_id = n - (size_t)(id - name);
    n = (size_t)(at - name);
    trim(&id, &n_id);
  }
  trim(&name, &n);
  if (!is_plain(name, n) || (at && !is_plain(id, n_id))) {
    *step = CRN_STEP_BAD;
    return CAIRN_OK;
  }
  CRN_TRY(set_text(&c->name, name, n));
  CRN_TRY(set_text(&c->id, id, n_id));
  c->has_name = true;
  crn_literal_start(&c->literal, CRN_DIALECT_JSON, "", d->max_depth);
  crn_call_begin(d);
  c->state = MISTRAL_ARGUMENTS;
  *step = CRN_STEP_AGAIN;
  return CAIRN_OK;
}

cairn_status crn_call_mistral_step(cairn_dialogue *d, char byte, crn_step *step) {
  crn_call *c = &d->call;
  bool done = false;
  *step = CRN_STEP_MORE;
  if (c->state == MISTRAL_START) {
    if (crn_is_space(byte)) return CAIRN_OK;
    if (byte == '[' || byte == '{') {
      crn_call_json_enter(c);
    } else {
      c->state = MISTRAL_HEAD;
    }
    *step = CRN_STEP_AGAIN;
    return CAIRN_OK;
  }
  if (c->state == MISTRAL_HEAD) {
    if (byte == '{') return read_head(d, step);
    if (byte == '\n' || byte == 0 || c->text.size >= MAX_HEAD_BYTES) *step = CRN_STEP_BAD;
    return crn_str_putc(&c->text, byte);
  }
  CRN_TRY(crn_call_value(d, byte, &c->arguments, step, &done));
  if (!done) return CAIRN_OK;
  *step = CRN_STEP_LEAVE;
  return crn_call_end(d);
}

// --- Gemma ----------------------------------------------------------------------------------------------------------

enum { GEMMA_PREFIX, GEMMA_NAME, GEMMA_ARGUMENTS, GEMMA_AFTER, GEMMA_CLOSE };

static cairn_status push_gemma_name(cairn_dialogue *d, char byte, crn_step *step) {
  crn_call *c = &d->call;
  if (byte != '{') {
    if (crn_is_space(byte) || byte == 0 || byte == '<' || c->text.size >= MAX_HEAD_BYTES) *step = CRN_STEP_BAD;
    return crn_str_putc(&c->text, byte);
  }
  if (!is_plain(c->text.data, c->text.size)) {
    *step = CRN_STEP_BAD;
    return CAIRN_OK;
  }
  CRN_TRY(set_text(&c->name, c->text.data, c->text.size));
  c->has_name = true;
  crn_literal_start(&c->literal, CRN_DIALECT_GEMMA, c->literal.delimiter, d->max_depth);
  crn_call_begin(d);
  c->state = GEMMA_ARGUMENTS;
  *step = CRN_STEP_AGAIN;
  return CAIRN_OK;
}

cairn_status crn_call_gemma_step(cairn_dialogue *d, char byte, crn_step *step) {
  crn_call *c = &d->call;
  bool done = false;
  *step = CRN_STEP_MORE;
  switch (c->state) {
    case GEMMA_PREFIX:
      if (!c->n_matched && crn_is_space(byte)) return CAIRN_OK;
      *step = crn_call_expect(c, "call:", byte);
      if (*step != CRN_STEP_LEAVE) return CAIRN_OK;
      c->state = GEMMA_NAME;
      *step = CRN_STEP_MORE;
      return CAIRN_OK;
    case GEMMA_NAME:
      return push_gemma_name(d, byte, step);
    case GEMMA_ARGUMENTS:
      CRN_TRY(crn_call_value(d, byte, &c->arguments, step, &done));
      if (!done) return CAIRN_OK;
      c->state = GEMMA_AFTER;
      return crn_call_end(d);
    case GEMMA_AFTER:
      if (crn_is_space(byte)) return CAIRN_OK;
      c->n_matched = 0;
      c->state = GEMMA_CLOSE;
      *step = CRN_STEP_AGAIN;
      return CAIRN_OK;
    default:
      *step = crn_call_expect(c, c->end, byte);
      return CAIRN_OK;
  }
}
