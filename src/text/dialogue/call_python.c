/// Calls in Python: Gemma's blocks, Llama's built-in tools and lists.
#include <string.h>

#include "text/dialogue/internal.h"

enum { PYTHON_START, PYTHON_NAME, PYTHON_ARGUMENTS, PYTHON_OBJECT, PYTHON_AFTER, PYTHON_CLOSE };
enum { MAX_NAME_BYTES = 256 };

static bool is_name_byte(char c, bool first) {
  bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  return letter || (!first && ((c >= '0' && c <= '9') || c == '.'));
}

// A message that starts with a bracket may be anything.
static crn_step refusal(const crn_call *c) { return c->kind == CRN_CALL_BARE_LIST ? CRN_STEP_OTHER : CRN_STEP_BAD; }

static cairn_status start(cairn_dialogue *d, char byte, crn_step *step) {
  crn_call *c = &d->call;
  if (crn_is_space(byte)) return CAIRN_OK;
  if (byte == '{' && c->kind == CRN_CALL_PYTHON_TAG) {
    crn_call_object_start(c, false);
    c->state = PYTHON_OBJECT;
    *step = CRN_STEP_AGAIN;
  } else if (byte == '[' && c->kind == CRN_CALL_PYTHON_BLOCK && !c->is_list) {
    c->is_list = true;
  } else if (is_name_byte(byte, true)) {
    crn_str_clear(&c->text);
    c->state = PYTHON_NAME;
    *step = CRN_STEP_AGAIN;
  } else {
    *step = refusal(c);
  }
  return CAIRN_OK;
}

// print(f(…)) shows what f gives, so the call is f; a module in front of the name is the form's, not the tool's.
static cairn_status take_name(cairn_dialogue *d, crn_step *step) {
  static const char kModule[] = "default_api.";
  crn_call *c = &d->call;
  const char *name = c->text.data;
  size_t n = c->text.size;
  if (c->kind == CRN_CALL_PYTHON_BLOCK && !c->is_wrapped && strcmp(name, "print") == 0) {
    c->is_wrapped = true;
    c->state = PYTHON_START;
    return CAIRN_OK;
  }
  if (c->kind == CRN_CALL_PYTHON_TAG && n > 5 && crn_ends_with(name, ".call")) n -= 5;
  if (n > strlen(kModule) && crn_starts_with(name, kModule)) {
    name += strlen(kModule);
    n -= strlen(kModule);
  }
  crn_str_clear(&c->name);
  CRN_TRY(crn_str_append(&c->name, name, n));
  if (c->kind == CRN_CALL_BARE_LIST && crn_call_is_unknown(d, c->name.data)) {
    *step = CRN_STEP_OTHER;
    return CAIRN_OK;
  }
  c->has_name = true;
  c->state = PYTHON_ARGUMENTS;
  CRN_TRY(crn_literal_start_arguments(&c->literal, d->max_depth, &c->arguments));
  crn_call_begin(d);
  return CAIRN_OK;
}

static cairn_status push_name(cairn_dialogue *d, char byte, crn_step *step) {
  crn_call *c = &d->call;
  if (is_name_byte(byte, false) && c->text.size < MAX_NAME_BYTES) return crn_str_putc(&c->text, byte);
  if (byte == '(') return take_name(d, step);
  *step = refusal(c);
  return CAIRN_OK;
}

// What may stand behind a call: more calls, or the end of what is open.
static void push_after(crn_call *c, char byte, crn_step *step) {
  if (crn_is_space(byte)) return;
  if (c->is_wrapped && byte == ')') {
    c->is_wrapped = false;
  } else if (c->kind == CRN_CALL_BARE_LIST || c->is_list) {
    bool ends = byte == ']' && !c->is_wrapped;
    if (byte == ',') c->state = PYTHON_START;
    if (ends) c->is_list = false;
    if (ends && c->kind == CRN_CALL_BARE_LIST) *step = CRN_STEP_LEAVE;
    if (!ends && byte != ',') *step = CRN_STEP_BAD;
  } else if (c->kind == CRN_CALL_PYTHON_TAG) {
    if (byte == '{') {
      c->state = PYTHON_START;
      *step = CRN_STEP_AGAIN;
    } else if (byte != ';') {
      *step = CRN_STEP_LEAVE_AGAIN;
    }
  } else if (!c->is_wrapped && byte == c->end[0]) {
    c->n_matched = 0;
    c->state = PYTHON_CLOSE;
    *step = CRN_STEP_AGAIN;
  } else if (!c->is_wrapped && is_name_byte(byte, true)) {
    c->state = PYTHON_START;
    *step = CRN_STEP_AGAIN;
  } else if (byte != ';') {
    *step = CRN_STEP_BAD;
  }
}

static cairn_status end_if(cairn_dialogue *d, bool done) {
  if (!done) return CAIRN_OK;
  d->call.state = PYTHON_AFTER;
  return crn_call_end(d);
}

cairn_status crn_call_python_step(cairn_dialogue *d, char byte, crn_step *step) {
  crn_call *c = &d->call;
  bool done = false;
  *step = CRN_STEP_MORE;
  switch (c->state) {
    case PYTHON_START:
      return start(d, byte, step);
    case PYTHON_NAME:
      return push_name(d, byte, step);
    case PYTHON_ARGUMENTS:
      CRN_TRY(crn_call_value(d, byte, &c->arguments, step, &done));
      return end_if(d, done);
    case PYTHON_OBJECT:
      CRN_TRY(crn_call_object_push(d, byte, step, &done));
      return end_if(d, done);
    case PYTHON_AFTER:
      push_after(c, byte, step);
      return CAIRN_OK;
    default:
      *step = crn_call_expect(c, c->end, byte);
      return CAIRN_OK;
  }
}
