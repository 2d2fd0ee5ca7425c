#include "text/dialogue/internal.h"

#include <string.h>

cairn_status crn_call_enter(cairn_dialogue *d, const crn_marker *m) {
  crn_call *c = &d->call;
  c->kind = m->kind;
  c->state = 0;
  c->end = m->end;
  c->n_matched = 0;
  c->is_list = c->is_wrapped = c->had_call = false;
  if (m->xml) c->xml = *m->xml;
  c->literal.delimiter = m->delimiter ? m->delimiter : "";
  crn_str_clear(&c->text);
  crn_str_clear(&c->key);
  crn_str_clear(&c->raw);
  d->in_call = true;
  d->is_at_start = false;
  d->raw_has_byte = false;
  CRN_TRY(crn_str_puts(&c->raw, m->text));
  if (m->kind == CRN_CALL_XML) return crn_str_puts(&c->text, m->text);
  return m->kind == CRN_CALL_BARE ? crn_call_bare_enter(d) : CAIRN_OK;
}

// --- failing --------------------------------------------------------------------------------------------------------

// A line of what was read, for the warning.
static int shown_bytes(const crn_str *s) {
  int n = s->size < 60 ? (int)s->size : 60;
  for (int i = 0; i < n; i++) {
    if (s->data[i] == 0) return i;
  }
  return n - (int)crn_utf8_incomplete_tail(s->data, (size_t)n);
}

static void leave(cairn_dialogue *d) {
  d->in_call = false;
  crn_str_clear(&d->call.raw);
}

// What was read is text after all. It is never looked through again for markers, so that no text costs more than one pass.
static cairn_status give_up(cairn_dialogue *d, bool is_malformed) {
  crn_call *c = &d->call;
  crn_call_forget(d);
  if (is_malformed) {
    d->n_malformed++;
    CRN_TRY(crn_sink_warn(d, "no readable tool call%s: %.*s%s", c->had_call ? " behind another one" : "", shown_bytes(&c->raw), c->raw.data,
                          c->raw.size > 60 ? "…" : ""));
  }
  CRN_TRY(crn_sink_text(d, c->raw.data, c->raw.size, true));
  leave(d);
  return CAIRN_OK;
}

// --- bytes ----------------------------------------------------------------------------------------------------------

static cairn_status step_of_kind(cairn_dialogue *d, char byte, crn_step *step) {
  switch (d->call.kind) {
    case CRN_CALL_TAGGED:
    case CRN_CALL_BARE:
      return crn_call_json_step(d, byte, step);
    case CRN_CALL_XML:
      return crn_call_xml_step(d, byte, step);
    case CRN_CALL_PYTHON_TAG:
    case CRN_CALL_BARE_LIST:
    case CRN_CALL_PYTHON_BLOCK:
      return crn_call_python_step(d, byte, step);
    case CRN_CALL_MISTRAL:
      return crn_call_mistral_step(d, byte, step);
    case CRN_CALL_GEMMA:
      return crn_call_gemma_step(d, byte, step);
    case CRN_CALL_DEEPSEEK:
    case CRN_CALL_DEEPSEEK_ITEM:
      return crn_call_deepseek_step(d, byte, step);
    case CRN_CALL_HARMONY:
      return crn_call_harmony_step(d, byte, step);
  }
  *step = CRN_STEP_BAD;
  return CAIRN_OK;
}

static bool is_blank(const crn_str *s) {
  for (size_t i = 0; i < s->size; i++) {
    if (!crn_is_space(s->data[i])) return false;
  }
  return true;
}

cairn_status crn_call_push(cairn_dialogue *d, char byte, bool *out_taken) {
  crn_str *raw = &d->call.raw;
  *out_taken = true;
  for (;;) {
    crn_step step = CRN_STEP_MORE;
    if (!d->raw_has_byte) CRN_TRY(crn_str_putc(raw, byte));
    d->raw_has_byte = true;
    if (raw->size > d->max_call_bytes) return CRN_FAIL(OUT_OF_RANGE, "a tool call has more than %zu bytes of text", d->max_call_bytes);
    CRN_TRY(step_of_kind(d, byte, &step));
    if (step == CRN_STEP_AGAIN) continue;
    *out_taken = step == CRN_STEP_MORE || step == CRN_STEP_LEAVE;
    if (!*out_taken && d->raw_has_byte) raw->data[--raw->size] = 0;
    d->raw_has_byte = false;
    if (step == CRN_STEP_MORE) return CAIRN_OK;
    bool is_bad = step == CRN_STEP_BAD;
    if (step == CRN_STEP_LEAVE || (step == CRN_STEP_LEAVE_AGAIN && d->trim && is_blank(raw))) {
      leave(d);
      return CAIRN_OK;
    }
    return give_up(d, is_bad);
  }
}

// --- the end of the text --------------------------------------------------------------------------------------------

// Whether nothing but the end of the form was missing: what was read since the last call begins like it.
static bool is_between_calls(const crn_call *c) {
  const char *p = c->raw.data, *end = c->end ? c->end : "";
  if (!c->had_call || c->has_name || c->arguments.size) return false;
  if (c->kind == CRN_CALL_DEEPSEEK || c->kind == CRN_CALL_DEEPSEEK_ITEM) return !strchr(p, '{');
  while (crn_is_space(*p)) p++;
  return !*p || (c->is_list && !strcmp(p, ",")) || !strncmp(p, end, strlen(p));
}

cairn_status crn_call_finish(cairn_dialogue *d) {
  crn_call *c = &d->call;
  if (c->kind == CRN_CALL_HARMONY && c->state == 0) {
    CRN_TRY(crn_call_end(d));  // a message to a function without a body
  } else if (!is_between_calls(c)) {
    return give_up(d, c->kind != CRN_CALL_BARE && c->kind != CRN_CALL_BARE_LIST);
  } else if (c->is_list || c->kind == CRN_CALL_DEEPSEEK || (c->end && c->kind != CRN_CALL_XML)) {
    CRN_TRY(crn_sink_warn(d, "the tool calls lack their end: the text stopped before it"));
  }
  leave(d);
  return CAIRN_OK;
}

// --- what the machines share ----------------------------------------------------------------------------------------

crn_step crn_call_expect(crn_call *c, const char *text, char byte) {
  if (text[c->n_matched] != byte) return CRN_STEP_BAD;
  if (text[++c->n_matched]) return CRN_STEP_MORE;
  c->n_matched = 0;
  return CRN_STEP_LEAVE;
}

cairn_status crn_call_value(cairn_dialogue *d, char byte, crn_str *out, crn_step *step, bool *out_done) {
  crn_literal_step result;
  *step = CRN_STEP_MORE;
  *out_done = false;
  CRN_TRY(crn_literal_push(&d->call.literal, byte, out, &result));
  switch (result) {
    case CRN_LITERAL_DEEP:
      return CRN_FAIL(OUT_OF_RANGE, "the arguments of a tool call are nested deeper than %d", d->max_depth);
    case CRN_LITERAL_BAD:
      *step = CRN_STEP_BAD;
      return CAIRN_OK;
    case CRN_LITERAL_DONE_BEFORE:
      *step = CRN_STEP_AGAIN;
      break;
    default:
      break;
  }
  *out_done = result != CRN_LITERAL_MORE;
  return CAIRN_OK;
}

bool crn_call_is_unknown(const cairn_dialogue *d, const char *name) { return d->tools && !crn_schema_has(d->tools, name); }
