#include <stdarg.h>

#include "text/dialogue/internal.h"

static void send(cairn_dialogue *d, const cairn_dialogue_event *event) {
  if (d->on_event && (event->text_bytes || event->kind >= CAIRN_DIALOGUE_TOOL_BEGIN)) d->on_event(d->user, event);
}

// --- sections -------------------------------------------------------------------------------------------------------

static void flush_side(cairn_dialogue *d, crn_section section, bool all) {
  crn_side *s = &d->sides[section];
  size_t n = s->text.size - s->sent;
  if (!all) n -= crn_utf8_incomplete_tail(s->text.data + s->sent, n);
  const cairn_dialogue_event event = {.kind = section == CRN_SECTION_CONTENT ? CAIRN_DIALOGUE_CONTENT : CAIRN_DIALOGUE_REASONING,
                                      .text = s->text.data + s->sent,
                                      .text_bytes = n};
  send(d, &event);
  s->sent += n;
}

// Arguments are whole characters by themselves, because the literals write them so.
static void flush_arguments(cairn_dialogue *d) {
  crn_call *c = &d->call;
  if (!c->has_begun || c->sent == c->arguments.size) return;
  const cairn_dialogue_event event = {.kind = CAIRN_DIALOGUE_TOOL_ARGUMENTS,
                                      .index = (int)d->calls.size,
                                      .id = c->id.size ? c->id.data : NULL,
                                      .name = c->name.data,
                                      .text = c->arguments.data + c->sent,
                                      .text_bytes = c->arguments.size - c->sent};
  send(d, &event);
  c->sent = c->arguments.size;
}

void crn_sink_flush(cairn_dialogue *d, bool all) {
  flush_side(d, d->section, all);
  flush_arguments(d);
}

static cairn_status put_blanks(cairn_dialogue *d) {
  CRN_TRY(crn_str_append(&d->sides[d->section].text, d->blanks.data, d->blanks.size));
  crn_str_clear(&d->blanks);
  return CAIRN_OK;
}

cairn_status crn_sink_text(cairn_dialogue *d, const char *text, size_t n, bool exact) {
  crn_str *out = &d->sides[d->section].text;
  if (!d->trim || exact) {
    CRN_TRY(put_blanks(d));
    d->skip_blanks = false;
    return crn_str_append(out, text, n);
  }
  for (size_t i = 0; i < n; i++) {
    if (crn_is_space(text[i])) {
      if (!d->skip_blanks) CRN_TRY(crn_str_putc(&d->blanks, text[i]));
      continue;
    }
    CRN_TRY(put_blanks(d));
    d->skip_blanks = false;
    CRN_TRY(crn_str_putc(out, text[i]));
  }
  return CAIRN_OK;
}

cairn_status crn_sink_section(cairn_dialogue *d, crn_section section) {
  // Stretches of thoughts, and messages of channels, are no continuation of the last one's words.
  bool is_framed = d->format == CAIRN_DIALOGUE_HARMONY || d->format == CAIRN_DIALOGUE_AGENTIC;
  d->sides[d->section].has_gap = d->blanks.size || is_framed || d->section == CRN_SECTION_REASONING;
  crn_str_clear(&d->blanks);
  flush_side(d, d->section, true);
  d->section = section;
  d->skip_blanks = d->trim;
  if (d->trim && d->sides[section].text.size && d->sides[section].has_gap) CRN_TRY(crn_str_putc(&d->blanks, '\n'));
  return CAIRN_OK;
}

cairn_status crn_sink_finish(cairn_dialogue *d) {
  if (d->section == CRN_SECTION_CONTENT && !d->calls.size) CRN_TRY(put_blanks(d));
  flush_side(d, d->section, true);
  return CAIRN_OK;
}

cairn_status crn_sink_warn(cairn_dialogue *d, const char *fmt, ...) {
  crn_str text;
  const char *copy = NULL;
  va_list args;
  crn_str_initialize(&text, &d->context->allocator);
  va_start(args, fmt);
  cairn_status status = crn_str_vprintf(&text, fmt, args);
  va_end(args);
  if (status == CAIRN_OK) status = crn_arena_strndup(&d->arena, text.data, text.size, &copy);
  if (status == CAIRN_OK) status = crn_vec_push(&d->context->allocator, &d->warnings, copy);
  crn_str_deinitialize(&text);
  return status;
}

// --- calls ----------------------------------------------------------------------------------------------------------

static void send_call(cairn_dialogue *d, cairn_dialogue_event_kind kind) {
  const crn_call *c = &d->call;
  const cairn_dialogue_event event = {
      .kind = kind, .index = (int)d->calls.size, .id = c->id.size ? c->id.data : NULL, .name = c->name.data, .text = ""};
  send(d, &event);
}

void crn_call_begin(cairn_dialogue *d) {
  if (d->call.has_begun || !d->call.has_name) return;
  crn_str_clear(&d->blanks);
  d->skip_blanks = d->trim;
  flush_side(d, d->section, true);
  d->call.has_begun = true;
  d->call.sent = 0;
  send_call(d, CAIRN_DIALOGUE_TOOL_BEGIN);
}

static cairn_status keep_call(cairn_dialogue *d) {
  crn_call *c = &d->call;
  cairn_dialogue_call kept = {.arguments_bytes = c->arguments.size};
  if (c->id.size) CRN_TRY(crn_arena_strndup(&d->arena, c->id.data, c->id.size, &kept.id));
  CRN_TRY(crn_arena_strndup(&d->arena, c->name.data, c->name.size, &kept.name));
  CRN_TRY(crn_arena_strndup(&d->arena, c->arguments.data, c->arguments.size, &kept.arguments));
  return crn_vec_push(&d->context->allocator, &d->calls, kept);
}

static void forget_call(crn_call *c) {
  crn_str_clear(&c->id);
  crn_str_clear(&c->name);
  crn_str_clear(&c->arguments);
  c->has_name = c->has_arguments = c->has_begun = false;
  c->sent = 0;
}

cairn_status crn_call_end(cairn_dialogue *d) {
  crn_call *c = &d->call;
  if (d->calls.size >= (size_t)d->max_calls) return CRN_FAIL(OUT_OF_RANGE, "the reply has more than %d tool calls", d->max_calls);
  if (!c->arguments.size) CRN_TRY(crn_str_puts(&c->arguments, "{}"));
  crn_call_begin(d);
  flush_arguments(d);
  send_call(d, CAIRN_DIALOGUE_TOOL_END);
  CRN_TRY(keep_call(d));
  forget_call(c);
  crn_str_clear(&c->raw);
  d->raw_has_byte = false;
  c->had_call = true;
  return CAIRN_OK;
}

void crn_call_forget(cairn_dialogue *d) {
  if (d->call.has_begun) send_call(d, CAIRN_DIALOGUE_TOOL_CANCEL);
  forget_call(&d->call);
}
