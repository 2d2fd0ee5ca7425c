#include "tools/json_writer.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/file.h"

void crn_jw_initialize(crn_json_writer *w, bool pretty) {
  *w = (crn_json_writer){.pretty = pretty};
  crn_str_initialize(&w->text, NULL);
}

void crn_jw_deinitialize(crn_json_writer *w) { crn_str_deinitialize(&w->text); }

static void put(crn_json_writer *w, const char *text) {
  if (w->status == CAIRN_OK) w->status = crn_str_puts(&w->text, text);
}

static void new_line(crn_json_writer *w) {
  if (!w->pretty || w->is_inline[w->depth]) return;
  put(w, "\n");
  for (int i = 0; i < w->depth; i++) put(w, "  ");
}

// What has to stand before the next value or key: a comma, a line break, nothing after a key.
static void separate(crn_json_writer *w) {
  if (w->after_key) {
    w->after_key = false;
    return;
  }
  if (w->depth == 0) return;
  if (w->has_member[w->depth]) put(w, w->is_inline[w->depth] ? ", " : ",");
  w->has_member[w->depth] = true;
  new_line(w);
}

static void open(crn_json_writer *w, const char *bracket, bool plain) {
  separate(w);
  put(w, bracket);
  if (w->depth + 1 >= JSON_WRITER_DEPTH) {
    if (w->status == CAIRN_OK) w->status = CRN_FAIL(OUT_OF_RANGE, "JSON nested deeper than %d", JSON_WRITER_DEPTH);
    return;
  }
  bool parent_inline = w->is_inline[w->depth];
  w->depth++;
  w->has_member[w->depth] = false;
  w->is_inline[w->depth] = plain || parent_inline || !w->pretty;
}

static void close_with(crn_json_writer *w, const char *bracket) {
  if (w->depth == 0) return;
  bool broken = w->has_member[w->depth] && !w->is_inline[w->depth];
  w->depth--;
  if (broken) {
    put(w, "\n");
    for (int i = 0; i < w->depth; i++) put(w, "  ");
  }
  put(w, bracket);
}

void crn_jw_open_object(crn_json_writer *w) { open(w, "{", false); }
void crn_jw_open_inline_object(crn_json_writer *w) { open(w, "{", true); }
void crn_jw_close_object(crn_json_writer *w) { close_with(w, "}"); }
void crn_jw_open_array(crn_json_writer *w, bool plain) { open(w, "[", plain); }
void crn_jw_close_array(crn_json_writer *w) { close_with(w, "]"); }

void crn_jw_key(crn_json_writer *w, const char *key) {
  separate(w);
  if (w->status == CAIRN_OK) w->status = crn_str_json(&w->text, key, strlen(key));
  put(w, ": ");
  w->after_key = true;
}

void crn_jw_text_n(crn_json_writer *w, const char *text, size_t n) {
  separate(w);
  if (w->status == CAIRN_OK) w->status = crn_str_json(&w->text, text, n);
}

void crn_jw_text(crn_json_writer *w, const char *text) {
  if (text)
    crn_jw_text_n(w, text, strlen(text));
  else
    crn_jw_null(w);
}

void crn_jw_integer(crn_json_writer *w, int64_t value) {
  separate(w);
  if (w->status == CAIRN_OK) w->status = crn_str_printf(&w->text, "%lld", (long long)value);
}

void crn_jw_number(crn_json_writer *w, double value) {
  separate(w);
  if (!isfinite(value))
    put(w, "null");
  else if (w->status == CAIRN_OK)
    w->status = crn_str_printf(&w->text, "%.9g", value);
}

void crn_jw_boolean(crn_json_writer *w, bool value) {
  separate(w);
  put(w, value ? "true" : "false");
}

void crn_jw_null(crn_json_writer *w) {
  separate(w);
  put(w, "null");
}

void crn_jw_raw(crn_json_writer *w, const char *json) {
  separate(w);
  put(w, json);
}

void crn_jw_put_text(crn_json_writer *w, const char *key, const char *text) {
  crn_jw_key(w, key);
  crn_jw_text(w, text);
}

void crn_jw_put_integer(crn_json_writer *w, const char *key, int64_t value) {
  crn_jw_key(w, key);
  crn_jw_integer(w, value);
}

void crn_jw_put_number(crn_json_writer *w, const char *key, double value) {
  crn_jw_key(w, key);
  crn_jw_number(w, value);
}

void crn_jw_put_boolean(crn_json_writer *w, const char *key, bool value) {
  crn_jw_key(w, key);
  crn_jw_boolean(w, value);
}

cairn_status crn_jw_print(crn_json_writer *w, FILE *file) {
  CRN_TRY(w->status);
  if (fwrite(w->text.data, 1, w->text.size, file) != w->text.size || fputc('\n', file) == EOF)
    return CRN_FAIL(IO, "cannot write the output: %s", strerror(errno));
  return CAIRN_OK;
}

cairn_status crn_jw_save(crn_json_writer *w, const char *path) {
  CRN_TRY(w->status);
  CRN_TRY(crn_str_putc(&w->text, '\n'));
  return crn_file_replace(path, w->text.data, w->text.size);
}
