/// DeepSeek's calls. V3 and R1: function, separator, name, a fenced block of JSON. V3.1: name, separator, JSON.
#include <string.h>

#include "text/dialogue/internal.h"

enum { DEEPSEEK_NEXT, DEEPSEEK_TAG, DEEPSEEK_HEAD, DEEPSEEK_NAME, DEEPSEEK_ARGUMENTS, DEEPSEEK_FENCE, DEEPSEEK_CALL_END };
enum { MAX_HEAD_BYTES = 512 };

static const char g_begin[] = "<｜tool▁call▁begin｜>", g_separator[] = "<｜tool▁sep｜>", g_end[] = "<｜tool▁call▁end｜>",
                  g_all_end[] = "<｜tool▁calls▁end｜>";

static bool is_prefix(const crn_str *s, const char *of) { return s->size <= strlen(of) && !memcmp(s->data, of, s->size); }

// Between calls: one begins, or the list ends.
static cairn_status push_tag(crn_call *c, char byte, crn_step *step) {
  CRN_TRY(crn_str_putc(&c->text, byte));
  if (strcmp(c->text.data, g_begin) == 0) {
    crn_str_clear(&c->text);
    c->state = DEEPSEEK_HEAD;
  } else if (c->had_call && strcmp(c->text.data, g_all_end) == 0) {
    *step = CRN_STEP_LEAVE;
  } else if (!is_prefix(&c->text, g_begin) && !(c->had_call && is_prefix(&c->text, g_all_end))) {
    *step = CRN_STEP_BAD;
  }
  return CAIRN_OK;
}

static cairn_status push_head(crn_call *c, char byte, crn_step *step) {
  size_t n = strlen(g_separator);
  CRN_TRY(crn_str_putc(&c->text, byte));
  if (byte == 0 || c->text.size > MAX_HEAD_BYTES) *step = CRN_STEP_BAD;
  if (c->text.size < n || memcmp(c->text.data + c->text.size - n, g_separator, n) != 0) return CAIRN_OK;
  crn_str_clear(&c->key);
  CRN_TRY(crn_str_append(&c->key, c->text.data, c->text.size - n));
  crn_str_clear(&c->text);
  c->state = DEEPSEEK_NAME;
  return CAIRN_OK;
}

// What stands between the separator and the arguments: nothing, or the name and the start of a fenced block.
static cairn_status take_name(cairn_dialogue *d, crn_step *step) {
  crn_call *c = &d->call;
  const char *name = c->key.data, *fence = strstr(c->text.data, "```");
  size_t n = c->key.size;
  const char *own = c->text.data + strspn(c->text.data, " \t\r\n");
  if (*own && own != fence) {
    name = own;
    n = fence ? (size_t)(fence - own) : strlen(own);
    const char *line = memchr(name, '\n', n);
    if (line) n = (size_t)(line - name);
    if (strcmp(c->key.data, "function") != 0) n = 0;
  }
  while (n && crn_is_space(name[n - 1])) n--;
  while (n && crn_is_space(*name)) {
    name++;
    n--;
  }
  if (!n || memchr(name, '<', n)) {
    *step = CRN_STEP_BAD;
    return CAIRN_OK;
  }
  crn_str_clear(&c->name);
  CRN_TRY(crn_str_append(&c->name, name, n));
  c->has_name = true;
  c->is_wrapped = fence != NULL;
  crn_literal_start(&c->literal, CRN_DIALECT_JSON, "", d->max_depth);
  crn_call_begin(d);
  c->state = DEEPSEEK_ARGUMENTS;
  *step = CRN_STEP_AGAIN;
  return CAIRN_OK;
}

static cairn_status push_arguments(cairn_dialogue *d, char byte, crn_step *step) {
  crn_call *c = &d->call;
  bool done = false;
  CRN_TRY(crn_call_value(d, byte, &c->arguments, step, &done));
  if (!done) return CAIRN_OK;
  c->n_matched = 0;
  c->state = c->is_wrapped ? DEEPSEEK_FENCE : DEEPSEEK_CALL_END;
  return crn_call_end(d);
}

// A text that is expected behind white space, and the state behind it.
static void push_expected(crn_call *c, const char *text, int next, char byte, crn_step *step) {
  if (!c->n_matched && crn_is_space(byte)) return;
  *step = crn_call_expect(c, text, byte);
  if (*step != CRN_STEP_LEAVE) return;
  c->state = next;
  *step = CRN_STEP_MORE;
}

cairn_status crn_call_deepseek_step(cairn_dialogue *d, char byte, crn_step *step) {
  crn_call *c = &d->call;
  *step = CRN_STEP_MORE;
  if (c->kind == CRN_CALL_DEEPSEEK_ITEM) {
    // The list was not opened, but a call was.
    c->kind = CRN_CALL_DEEPSEEK;
    c->state = DEEPSEEK_HEAD;
  }
  switch (c->state) {
    case DEEPSEEK_NEXT:
      if (crn_is_space(byte)) return CAIRN_OK;
      crn_str_clear(&c->text);
      c->state = DEEPSEEK_TAG;
      *step = CRN_STEP_AGAIN;
      return CAIRN_OK;
    case DEEPSEEK_TAG:
      return push_tag(c, byte, step);
    case DEEPSEEK_HEAD:
      return push_head(c, byte, step);
    case DEEPSEEK_NAME:
      if (byte == '{') return take_name(d, step);
      if (byte == 0 || c->text.size >= MAX_HEAD_BYTES) *step = CRN_STEP_BAD;
      return crn_str_putc(&c->text, byte);
    case DEEPSEEK_ARGUMENTS:
      return push_arguments(d, byte, step);
    case DEEPSEEK_FENCE:
      push_expected(c, "```", DEEPSEEK_CALL_END, byte, step);
      return CAIRN_OK;
    default:
      push_expected(c, g_end, DEEPSEEK_NEXT, byte, step);
      return CAIRN_OK;
  }
}
