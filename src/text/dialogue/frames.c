/// Channels: messages with a header that says what they are and whom they are for, up to <|message|>.
#include <string.h>

#include "text/dialogue/internal.h"

enum { MAX_HEADER_BYTES = 512 };

static const char g_message[] = "<|message|>";

static bool ends_with(const crn_str *s, const char *end) {
  size_t n = strlen(end);
  return s->size >= n && !memcmp(s->data + s->size - n, end, n);
}

cairn_status crn_frame_marker(cairn_dialogue *d, const crn_marker *m) {
  switch (m->action) {
    case CRN_MARKER_HEADER:
    case CRN_MARKER_RECIPIENT:
      d->in_header = true;
      crn_str_clear(&d->header);
      return crn_str_puts(&d->header, m->text);
    case CRN_MARKER_REASONING:
      return crn_sink_section(d, CRN_SECTION_REASONING);
    default:
      d->is_at_start = true;
      return crn_sink_section(d, CRN_SECTION_CONTENT);
  }
}

// --- headers --------------------------------------------------------------------------------------------------------

// The word behind the last `label`, up to white space or the next marker.
static const char *word_behind(const crn_str *header, const char *label, size_t *out_n) {
  const char *at = NULL;
  for (const char *p = header->data; (p = strstr(p, label)); p++) at = p + strlen(label);
  *out_n = at ? strcspn(at, " \t\r\n<") : 0;
  return at;
}

static bool is_word(const char *word, size_t n, const char *text) { return n == strlen(text) && !memcmp(word, text, n); }

static bool is_person(const char *recipient, size_t n) {
  return is_word(recipient, n, "user") || is_word(recipient, n, "assistant") || is_word(recipient, n, "all");
}

static cairn_status enter_call(cairn_dialogue *d, const char *name, size_t n) {
  static const char kNamespace[] = "functions.";
  const crn_marker marker = {.text = d->header.data, .kind = CRN_CALL_HARMONY};
  if (n > strlen(kNamespace) && !memcmp(name, kNamespace, strlen(kNamespace))) {
    name += strlen(kNamespace);
    n -= strlen(kNamespace);
  }
  CRN_TRY(crn_call_enter(d, &marker));
  crn_str_clear(&d->call.name);
  CRN_TRY(crn_str_append(&d->call.name, name, n));
  d->call.has_name = true;
  return CAIRN_OK;
}

static cairn_status read_header(cairn_dialogue *d) {
  size_t n_to, n_channel;
  const char *to = word_behind(&d->header, "to=", &n_to);
  const char *channel = word_behind(&d->header, "<|channel|>", &n_channel);
  d->in_header = false;
  d->is_at_start = true;
  bool is_harmony = d->format == CAIRN_DIALOGUE_HARMONY;
  bool is_call = is_harmony && to && n_to && !is_person(to, n_to);
  bool is_thought = is_harmony ? channel && is_word(channel, n_channel, "analysis") : to && is_word(to, n_to, "self");
  CRN_TRY(crn_sink_section(d, is_thought && !is_call ? CRN_SECTION_REASONING : CRN_SECTION_CONTENT));
  return is_call ? enter_call(d, to, n_to) : CAIRN_OK;
}

// --- headers that are none ------------------------------------------------------------------------------------------

// Markers and roles say nothing by themselves; anything else is text.
static bool has_text(const crn_str *header) {
  const char *p = header->data, *end = p + header->size;
  while (p < end) {
    const char *close = *p == '<' && p + 1 < end && p[1] == '|' ? memmem(p, (size_t)(end - p), "|>", 2) : NULL;
    if (close) {
      p = close + 2;
    } else if (crn_is_space(*p)) {
      p++;
    } else if ((size_t)(end - p) >= 9 && !memcmp(p, "assistant", 9)) {
      p += 9;
    } else {
      return true;
    }
  }
  return false;
}

static cairn_status give_up(cairn_dialogue *d) {
  d->in_header = false;
  if (!has_text(&d->header)) return CAIRN_OK;
  d->n_malformed++;
  CRN_TRY(crn_sink_section(d, CRN_SECTION_CONTENT));
  CRN_TRY(crn_sink_warn(d, "the header of a message has no end"));
  return crn_sink_text(d, d->header.data, d->header.size, true);
}

cairn_status crn_frame_push(cairn_dialogue *d, char byte) {
  static const char *const kStarts[] = {"<|start|>", "<|eom|>"}, *const kEnds[] = {"<|eot|>", "<|end|>", "<|return|>", "<|call|>"};
  CRN_TRY(crn_str_putc(&d->header, byte));
  if (byte == 0 || d->header.size > MAX_HEADER_BYTES) return give_up(d);
  if (byte != '>') return CAIRN_OK;
  if (ends_with(&d->header, g_message)) return read_header(d);
  // A message without a body is followed by another one, or by nothing.
  for (size_t i = 0; i < 2; i++) {
    size_t n = strlen(kStarts[i]);
    if (!ends_with(&d->header, kStarts[i]) || d->header.size == n) continue;
    d->header.data[d->header.size -= n] = 0;
    CRN_TRY(give_up(d));
    d->in_header = true;
    crn_str_clear(&d->header);
    return crn_str_puts(&d->header, kStarts[i]);
  }
  for (size_t i = 0; i < 4; i++) {
    if (!ends_with(&d->header, kEnds[i])) continue;
    d->header.data[d->header.size -= strlen(kEnds[i])] = 0;
    CRN_TRY(give_up(d));
    d->is_at_start = true;
    return crn_sink_section(d, CRN_SECTION_CONTENT);
  }
  return CAIRN_OK;
}

cairn_status crn_frame_finish(cairn_dialogue *d) { return give_up(d); }

// --- the body of a message to a function ----------------------------------------------------------------------------

enum { BODY_START, BODY_ARGUMENTS, BODY_AFTER };

cairn_status crn_call_harmony_step(cairn_dialogue *d, char byte, crn_step *step) {
  crn_call *c = &d->call;
  bool done = false;
  *step = CRN_STEP_MORE;
  if (c->state != BODY_ARGUMENTS && crn_is_space(byte)) return CAIRN_OK;
  switch (c->state) {
    case BODY_START:
      if (byte == '<') {
        *step = CRN_STEP_LEAVE_AGAIN;
        return crn_call_end(d);
      }
      crn_literal_start(&c->literal, CRN_DIALECT_JSON, "", d->max_depth);
      crn_call_begin(d);
      c->state = BODY_ARGUMENTS;
      *step = CRN_STEP_AGAIN;
      return CAIRN_OK;
    case BODY_ARGUMENTS:
      CRN_TRY(crn_call_value(d, byte, &c->arguments, step, &done));
      if (!done) return CAIRN_OK;
      c->state = BODY_AFTER;
      return crn_call_end(d);
    default:
      *step = CRN_STEP_LEAVE_AGAIN;
      return CAIRN_OK;
  }
}
