/// Calls in tags: <function=f><parameter=k>v</parameter></function>, and others of the same shape.
#include <string.h>

#include "text/dialogue/internal.h"
#include "text/dialogue/literal_word.h"

enum { XML_TAG, XML_SPACE, XML_VALUE, XML_JSON };
enum { MAX_TAG_BYTES = 1024 };

// Whether the tag so far agrees with a pattern as far as both go.
static bool agrees(const crn_str *tag, const char *pattern) {
  size_t n = strlen(pattern);
  return memcmp(tag->data, pattern, n < tag->size ? n : tag->size) == 0;
}

// The name between the two parts of a pattern, copied to `out`. False when the tag is not complete or has none.
static cairn_status name_in(const crn_str *tag, const char *before, const char *behind, crn_str *out, bool *out_has) {
  size_t n_before = strlen(before), n_behind = strlen(behind);
  *out_has = tag->size > n_before + n_behind && !strncmp(tag->data, before, n_before) && crn_ends_with(tag->data, behind);
  if (!*out_has) return CAIRN_OK;
  crn_str_clear(out);
  return crn_str_append(out, tag->data + n_before, tag->size - n_before - n_behind);
}

static bool is_possible(const crn_call *c) {
  const crn_str *tag = &c->text;
  if (tag->size > MAX_TAG_BYTES || memchr(tag->data, 0, tag->size)) return false;
  if (c->has_name) {
    return (agrees(tag, c->xml.parameter) && !c->has_arguments) || (tag->size <= strlen(c->xml.call_end) && agrees(tag, c->xml.call_end));
  }
  return agrees(tag, c->xml.call) || (c->had_call && c->end && tag->size <= strlen(c->end) && agrees(tag, c->end));
}

// Without an outer pair nothing says that more must follow.
static crn_step refusal(const crn_call *c) { return c->had_call && !c->is_wrapped && !c->has_name ? CRN_STEP_OTHER : CRN_STEP_BAD; }

static cairn_status end_call(cairn_dialogue *d) {
  crn_call *c = &d->call;
  if (!c->has_arguments && c->arguments.size) CRN_TRY(crn_str_putc(&c->arguments, '}'));
  c->state = XML_SPACE;
  return crn_call_end(d);
}

static cairn_status push_tag(cairn_dialogue *d, char byte, crn_step *step) {
  crn_call *c = &d->call;
  bool has = false;
  CRN_TRY(crn_str_putc(&c->text, byte));
  if (!is_possible(c)) {
    *step = refusal(c);
    return CAIRN_OK;
  }
  if (byte != '>') return CAIRN_OK;
  if (c->has_name) {
    if (strcmp(c->text.data, c->xml.call_end) == 0) return end_call(d);
    CRN_TRY(name_in(&c->text, c->xml.parameter, c->xml.parameter_rest, &c->key, &has));
    if (has) c->state = XML_VALUE;
  } else if (c->end && strcmp(c->text.data, c->end) == 0) {
    *step = CRN_STEP_LEAVE;
  } else {
    CRN_TRY(name_in(&c->text, c->xml.call, c->xml.call_rest, &c->name, &has));
    c->has_name = has;
    if (has) c->state = XML_SPACE;
    crn_call_begin(d);
  }
  if (has) crn_str_clear(&c->text);
  return CAIRN_OK;
}

static cairn_status push_space(cairn_dialogue *d, char byte, crn_step *step) {
  crn_call *c = &d->call;
  if (crn_is_space(byte)) return CAIRN_OK;
  if (byte == '<') {
    crn_str_clear(&c->text);
    c->state = XML_TAG;
    return crn_str_putc(&c->text, byte);
  }
  if (byte == '{' && c->has_name && !c->arguments.size) {
    // Some models put the arguments as JSON between the tags.
    crn_literal_start(&c->literal, CRN_DIALECT_JSON, "", d->max_depth);
    c->state = XML_JSON;
    c->has_arguments = true;
    *step = CRN_STEP_AGAIN;
    return CAIRN_OK;
  }
  *step = c->had_call && !c->is_wrapped && !c->has_name ? CRN_STEP_LEAVE_AGAIN : CRN_STEP_BAD;
  return CAIRN_OK;
}

// --- values ---------------------------------------------------------------------------------------------------------

// A value has no type of its own. The tool's schema decides; without one, what is JSON of another type is no text.
static cairn_status put_value(cairn_dialogue *d, const char *text, size_t n) {
  crn_call *c = &d->call;
  bool ok = false;
  crn_parameter_type type = crn_schema_type(d->tools, c->name.data, c->key.data);
  const char *first = text;
  while (first < text + n && crn_is_space(*first)) first++;
  bool is_quoted = first < text + n && *first == '"';
  if (type != CRN_PARAMETER_TEXT && !(type == CRN_PARAMETER_UNKNOWN && is_quoted)) {
    CRN_TRY(crn_literal_whole(&c->literal, CRN_DIALECT_JSON, d->max_depth, text, n, &c->arguments, &ok));
  }
  if (!ok && type == CRN_PARAMETER_OTHER) {
    CRN_TRY(crn_literal_whole(&c->literal, CRN_DIALECT_PYTHON, d->max_depth, text, n, &c->arguments, &ok));
  }
  return ok ? CAIRN_OK : crn_literal_text(&c->arguments, text, n);
}

static cairn_status take_value(cairn_dialogue *d) {
  crn_call *c = &d->call;
  const char *text = c->text.data;
  size_t n = c->text.size - strlen(c->xml.parameter_end);
  if (c->xml.strip_newlines && n && text[0] == '\n') {
    text++;
    n--;
  }
  if (c->xml.strip_newlines && n && text[n - 1] == '\n') n--;
  CRN_TRY(crn_str_putc(&c->arguments, c->arguments.size ? ',' : '{'));
  CRN_TRY(crn_literal_text(&c->arguments, c->key.data, c->key.size));
  CRN_TRY(crn_str_putc(&c->arguments, ':'));
  CRN_TRY(put_value(d, text, n));
  c->state = XML_SPACE;
  return CAIRN_OK;
}

cairn_status crn_call_xml_step(cairn_dialogue *d, char byte, crn_step *step) {
  crn_call *c = &d->call;
  bool done = false;
  *step = CRN_STEP_MORE;
  switch (c->state) {
    case XML_TAG:
      return push_tag(d, byte, step);
    case XML_SPACE:
      return push_space(d, byte, step);
    case XML_JSON:
      CRN_TRY(crn_call_value(d, byte, &c->arguments, step, &done));
      if (done) c->state = XML_SPACE;
      return CAIRN_OK;
    default: {
      size_t n_end = strlen(c->xml.parameter_end);
      CRN_TRY(crn_str_putc(&c->text, byte));
      bool ends = byte == '>' && c->text.size >= n_end && !memcmp(c->text.data + c->text.size - n_end, c->xml.parameter_end, n_end);
      return ends ? take_value(d) : CAIRN_OK;
    }
  }
}
