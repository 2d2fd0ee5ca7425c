/// Writing JSON in order, without a tree: keys come out as they were put in, text of any bytes becomes valid UTF-8.
/// The first failure is kept; calls after it do nothing, and crn_jw_print reports it.
#ifndef CRN_TOOLS_JSON_WRITER_H
#define CRN_TOOLS_JSON_WRITER_H

#include <stdio.h>

#include "base/str.h"

enum { JSON_WRITER_DEPTH = 64 };

typedef struct crn_json_writer {
  crn_str text;
  cairn_status status;
  bool pretty;  ///< one member a line; arrays of plain values stay on one line
  int depth;
  bool has_member[JSON_WRITER_DEPTH];
  bool is_inline[JSON_WRITER_DEPTH];
  bool after_key;
} crn_json_writer;

void crn_jw_initialize(crn_json_writer *w, bool pretty);
void crn_jw_deinitialize(crn_json_writer *w);

void crn_jw_open_object(crn_json_writer *w);
/// As crn_jw_open_object, on one line even when pretty.
void crn_jw_open_inline_object(crn_json_writer *w);
void crn_jw_close_object(crn_json_writer *w);
/// `plain`: the items are numbers or short texts, written on one line even when pretty.
void crn_jw_open_array(crn_json_writer *w, bool plain);
void crn_jw_close_array(crn_json_writer *w);
void crn_jw_key(crn_json_writer *w, const char *key);

void crn_jw_text(crn_json_writer *w, const char *text);  ///< NULL writes null
void crn_jw_text_n(crn_json_writer *w, const char *text, size_t n);
void crn_jw_integer(crn_json_writer *w, int64_t value);
/// 9 significant digits; null when not finite.
void crn_jw_number(crn_json_writer *w, double value);
void crn_jw_boolean(crn_json_writer *w, bool value);
void crn_jw_null(crn_json_writer *w);
/// Text that is JSON already.
void crn_jw_raw(crn_json_writer *w, const char *json);

/// Key and value in one call.
void crn_jw_put_text(crn_json_writer *w, const char *key, const char *text);
void crn_jw_put_integer(crn_json_writer *w, const char *key, int64_t value);
void crn_jw_put_number(crn_json_writer *w, const char *key, double value);
void crn_jw_put_boolean(crn_json_writer *w, const char *key, bool value);

/// Prints what was written and a newline. Errors: the first failure, IO.
cairn_status crn_jw_print(crn_json_writer *w, FILE *file);
/// The same into a file, which is there whole or not at all.
cairn_status crn_jw_save(crn_json_writer *w, const char *path);

#endif
