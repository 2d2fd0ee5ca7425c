/// Calls in JSON: an object, several of them, or a list.
#include <string.h>

#include "text/dialogue/internal.h"

// --- one object -----------------------------------------------------------------------------------------------------

enum { OBJECT_OPEN, OBJECT_FIRST, OBJECT_KEY_DUE, OBJECT_KEY, OBJECT_COLON, OBJECT_VALUE_DUE, OBJECT_VALUE, OBJECT_NEXT };
enum { FIELD_OTHER, FIELD_NAME, FIELD_ARGUMENTS, FIELD_ID, FIELD_FUNCTION, FIELD_TYPE };

void crn_call_object_start(crn_call *c, bool is_bare) { c->object = (crn_call_object){.is_bare = is_bare}; }

static int field_of(const crn_str *key) {
  static const struct {
    const char *key;
    int field;
  } kFields[] = {{"\"name\"", FIELD_NAME},           {"\"tool_name\"", FIELD_NAME},
                 {"\"arguments\"", FIELD_ARGUMENTS}, {"\"parameters\"", FIELD_ARGUMENTS},
                 {"\"args\"", FIELD_ARGUMENTS},      {"\"id\"", FIELD_ID},
                 {"\"call_id\"", FIELD_ID},          {"\"tool_call_id\"", FIELD_ID},
                 {"\"function\"", FIELD_FUNCTION},   {"\"type\"", FIELD_TYPE}};
  for (size_t i = 0; i < sizeof kFields / sizeof *kFields; i++) {
    if (strcmp(key->data, kFields[i].key) == 0) return kFields[i].field;
  }
  return FIELD_OTHER;
}

static void start_literal(cairn_dialogue *d, crn_str *out) {
  crn_str_clear(out);
  crn_literal_start(&d->call.literal, CRN_DIALECT_JSON, "", d->max_depth);
}

static crn_str *target(crn_call *c) {
  bool is_direct = c->object.field == FIELD_ARGUMENTS && !c->object.is_text;
  return is_direct ? &c->arguments : &c->text;
}

// Arguments that are an object go out as they come; a text that holds them is read once it is complete.
static cairn_status start_value(cairn_dialogue *d, char byte, crn_step *step) {
  crn_call *c = &d->call;
  crn_call_object *o = &c->object;
  if (o->field == FIELD_FUNCTION && byte == '{' && o->nesting == 0) {
    o->nesting++;
    o->state = OBJECT_FIRST;
    return CAIRN_OK;
  }
  bool repeated = (o->field == FIELD_ARGUMENTS && c->has_arguments) || (o->field == FIELD_NAME && c->has_name);
  if (repeated) {
    *step = CRN_STEP_BAD;
    return CAIRN_OK;
  }
  o->is_text = byte == '"';
  start_literal(d, target(c));
  if (o->field == FIELD_ARGUMENTS) crn_call_begin(d);
  o->state = OBJECT_VALUE;
  *step = CRN_STEP_AGAIN;
  return CAIRN_OK;
}

static cairn_status take_name(cairn_dialogue *d, crn_step *step) {
  crn_call *c = &d->call;
  bool is_text = c->text.data[0] == '"' && c->text.size > 2;
  if (c->object.field == FIELD_FUNCTION && !is_text) return CAIRN_OK;
  crn_str_clear(&c->name);
  if (is_text) CRN_TRY(crn_literal_unescape(c->text.data, c->text.size, &c->name));
  is_text = is_text && !memchr(c->name.data, 0, c->name.size);
  c->has_name = is_text;
  if (!is_text || (c->object.is_bare && crn_call_is_unknown(d, c->name.data))) *step = CRN_STEP_BAD;
  return CAIRN_OK;
}

static cairn_status take_arguments(cairn_dialogue *d) {
  crn_call *c = &d->call;
  bool ok = true;
  c->has_arguments = true;
  if (!c->object.is_text && strcmp(c->arguments.data, "null") == 0) crn_str_clear(&c->arguments);
  if (!c->object.is_text) return CAIRN_OK;
  crn_str_clear(&c->key);
  CRN_TRY(crn_literal_unescape(c->text.data, c->text.size, &c->key));
  if (!c->key.size) return CAIRN_OK;
  CRN_TRY(crn_literal_whole(&c->literal, CRN_DIALECT_JSON, d->max_depth, c->key.data, c->key.size, &c->arguments, &ok));
  return ok ? CAIRN_OK : crn_str_append(&c->arguments, c->text.data, c->text.size);
}

static cairn_status take_id(crn_call *c) {
  crn_str_clear(&c->id);
  if (c->text.data[0] == '"') {
    CRN_TRY(crn_literal_unescape(c->text.data, c->text.size, &c->id));
    if (memchr(c->id.data, 0, c->id.size)) crn_str_clear(&c->id);  // texts of the result end with their first NUL
    return CAIRN_OK;
  }
  bool is_number = c->text.data[0] == '-' || (c->text.data[0] >= '0' && c->text.data[0] <= '9');
  return is_number ? crn_str_append(&c->id, c->text.data, c->text.size) : CAIRN_OK;
}

static cairn_status take_field(cairn_dialogue *d, crn_step *step) {
  switch (d->call.object.field) {
    case FIELD_NAME:
    case FIELD_FUNCTION:
      return take_name(d, step);
    case FIELD_ARGUMENTS:
      return take_arguments(d);
    case FIELD_ID:
      return take_id(&d->call);
    default:
      return CAIRN_OK;
  }
}

static cairn_status push_value(cairn_dialogue *d, char byte, crn_step *step) {
  bool done = false;
  CRN_TRY(crn_call_value(d, byte, target(&d->call), step, &done));
  if (!done) return CAIRN_OK;
  d->call.object.state = OBJECT_NEXT;
  return take_field(d, step);
}

static cairn_status push_key(cairn_dialogue *d, char byte, crn_step *step) {
  crn_call_object *o = &d->call.object;
  bool done = false;
  CRN_TRY(crn_call_value(d, byte, &d->call.key, step, &done));
  if (!done) return CAIRN_OK;
  o->field = field_of(&d->call.key);
  o->state = OBJECT_COLON;
  if (o->is_bare && o->field == FIELD_OTHER) *step = CRN_STEP_BAD;
  return CAIRN_OK;
}

static void close_object(crn_call *c, crn_step *step, bool *out_done) {
  if (c->object.nesting) {
    c->object.nesting--;
    c->object.state = OBJECT_NEXT;
  } else if (c->has_name) {
    *out_done = true;
  } else {
    *step = CRN_STEP_BAD;
  }
}

static cairn_status push_structure(cairn_dialogue *d, char byte, crn_step *step, bool *out_done) {
  crn_call *c = &d->call;
  crn_call_object *o = &c->object;
  bool may_close = o->state == OBJECT_FIRST || o->state == OBJECT_NEXT;
  if (crn_is_space(byte)) return CAIRN_OK;
  if (may_close && byte == '}') {
    close_object(c, step, out_done);
  } else if (o->state == OBJECT_OPEN && byte == '{') {
    o->state = OBJECT_FIRST;
  } else if ((o->state == OBJECT_FIRST || o->state == OBJECT_KEY_DUE) && byte == '"') {
    start_literal(d, &c->key);
    o->state = OBJECT_KEY;
    *step = CRN_STEP_AGAIN;
  } else if (o->state == OBJECT_COLON && byte == ':') {
    o->state = OBJECT_VALUE_DUE;
  } else if (o->state == OBJECT_NEXT && byte == ',') {
    o->state = OBJECT_KEY_DUE;
  } else {
    *step = CRN_STEP_BAD;
  }
  return CAIRN_OK;
}

cairn_status crn_call_object_push(cairn_dialogue *d, char byte, crn_step *step, bool *out_done) {
  crn_call_object *o = &d->call.object;
  *step = CRN_STEP_MORE;
  *out_done = false;
  if (o->state == OBJECT_KEY) {
    CRN_TRY(push_key(d, byte, step));
  } else if (o->state == OBJECT_VALUE) {
    CRN_TRY(push_value(d, byte, step));
  } else if (o->state == OBJECT_VALUE_DUE && !crn_is_space(byte)) {
    CRN_TRY(start_value(d, byte, step));
  } else {
    CRN_TRY(push_structure(d, byte, step, out_done));
  }
  // An object that may be anything is no failed call when it is something else.
  if (*step == CRN_STEP_BAD && o->is_bare) *step = CRN_STEP_OTHER;
  return CAIRN_OK;
}

// --- the form around it ---------------------------------------------------------------------------------------------

enum { FORM_START, FORM_ITEM, FORM_OBJECT, FORM_LIST_NEXT, FORM_AFTER, FORM_CLOSE };

cairn_status crn_call_bare_enter(cairn_dialogue *d) {
  crn_step step;
  bool done;
  crn_call_object_start(&d->call, true);
  d->call.state = FORM_OBJECT;
  return crn_call_object_push(d, '{', &step, &done);
}

void crn_call_json_enter(crn_call *c) {
  c->kind = CRN_CALL_TAGGED;
  c->end = NULL;
  c->xml = (crn_xml_dialect){0};
  c->state = FORM_START;
}

static void start_object(crn_call *c, crn_step *step) {
  crn_call_object_start(c, c->kind == CRN_CALL_BARE);
  c->state = FORM_OBJECT;
  *step = CRN_STEP_AGAIN;
}

static cairn_status push_object(cairn_dialogue *d, char byte, crn_step *step) {
  crn_call *c = &d->call;
  bool done;
  CRN_TRY(crn_call_object_push(d, byte, step, &done));
  if (!done) return CAIRN_OK;
  CRN_TRY(crn_call_end(d));
  c->state = c->is_list ? FORM_LIST_NEXT : FORM_AFTER;
  // Where nothing closes the form, it ends with its object.
  if (!c->is_list && !c->end && c->kind == CRN_CALL_TAGGED) *step = CRN_STEP_LEAVE;
  return CAIRN_OK;
}

static cairn_status push_start(cairn_dialogue *d, char byte, crn_step *step) {
  crn_call *c = &d->call;
  if (byte == '{') {
    start_object(c, step);
  } else if (byte == '[') {
    c->is_list = true;
    c->state = FORM_ITEM;
  } else if (byte == '<' && c->xml.call) {
    c->kind = CRN_CALL_XML;
    c->state = 0;
    c->is_wrapped = true;
    crn_str_clear(&c->text);
    return crn_str_putc(&c->text, '<');
  } else {
    *step = CRN_STEP_BAD;
  }
  return CAIRN_OK;
}

static void push_list(crn_call *c, char byte, crn_step *step) {
  if (c->state == FORM_ITEM && byte == '{') {
    start_object(c, step);
  } else if (c->state == FORM_LIST_NEXT && byte == ',') {
    c->state = FORM_ITEM;
  } else if (byte == ']' && c->had_call) {
    c->is_list = false;
    c->state = FORM_AFTER;
    if (!c->end) *step = CRN_STEP_LEAVE;
  } else {
    *step = CRN_STEP_BAD;
  }
}

static void push_after(crn_call *c, char byte, crn_step *step) {
  bool is_bare = c->kind == CRN_CALL_BARE;
  if (byte == '{') {
    start_object(c, step);
  } else if (is_bare) {
    if (byte != ';') *step = CRN_STEP_LEAVE_AGAIN;
  } else if (c->end && byte == c->end[0]) {
    c->n_matched = 0;
    c->state = FORM_CLOSE;
    *step = CRN_STEP_AGAIN;
  } else {
    *step = CRN_STEP_BAD;
  }
}

cairn_status crn_call_json_step(cairn_dialogue *d, char byte, crn_step *step) {
  crn_call *c = &d->call;
  *step = CRN_STEP_MORE;
  if (c->state == FORM_OBJECT) return push_object(d, byte, step);
  if (c->state == FORM_CLOSE) {
    *step = crn_call_expect(c, c->end, byte);
    return CAIRN_OK;
  }
  if (crn_is_space(byte)) return CAIRN_OK;
  if (c->state == FORM_START) return push_start(d, byte, step);
  if (c->state == FORM_AFTER) {
    push_after(c, byte, step);
  } else {
    push_list(c, byte, step);
  }
  return CAIRN_OK;
}
