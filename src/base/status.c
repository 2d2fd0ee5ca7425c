#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGE_BYTES = 1024, CONTEXT_BYTES = 256, MAX_CONTEXT = 8 };

typedef struct error_record {
  cairn_error view;
  char message[MESSAGE_BYTES];
  char context[MAX_CONTEXT][CONTEXT_BYTES];
  const char *context_view[MAX_CONTEXT];
} error_record;

static _Thread_local error_record t_error;

// Source paths are shown relative to the tree, whatever directory the compiler was started in.
static const char *relative_path(const char *file) {
  const char *at = strstr(file, "src/");
  return at ? at : file;
}

cairn_status crn_fail(cairn_status code, const char *file, int line, const char *fmt, ...) {
  error_record *e = &t_error;
  e->view.code = code;
  e->view.file = relative_path(file);
  e->view.line = line;
  e->view.n_context = 0;
  e->view.context = e->context_view;
  // The message may quote the previous one, so it is formatted aside first.
  char text[MESSAGE_BYTES];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  memcpy(e->message, text, sizeof text);
  e->view.message = e->message;
  return code;
}

cairn_status crn_note(cairn_status code, const char *fmt, ...) {
  error_record *e = &t_error;
  if (e->view.n_context >= MAX_CONTEXT) return code;
  char *slot = e->context[e->view.n_context];
  va_list args;
  va_start(args, fmt);
  vsnprintf(slot, CONTEXT_BYTES, fmt, args);
  va_end(args);
  e->context_view[e->view.n_context++] = slot;
  e->view.context = e->context_view;
  return code;
}

void crn_error_restore(cairn_status code, const char *message) {
  error_record *e = &t_error;
  e->view = (cairn_error){.code = code, .file = "", .context = e->context_view};
  snprintf(e->message, sizeof e->message, "%s", message ? message : "");
  e->view.message = e->message;
}

void crn_error_clear(void) { crn_error_restore(CAIRN_OK, ""); }

const char *cairn_status_text(cairn_status code) {
  switch (code) {
#define CASE_TEXT(name, value, text) \
  case CAIRN_##name:                 \
    return text;
    CAIRN_STATUS_LIST(CASE_TEXT)
#undef CASE_TEXT
  }
  return "unknown status";
}

const char *cairn_status_name(cairn_status code) {
  switch (code) {
#define CASE_NAME(name, value, text) \
  case CAIRN_##name:                 \
    return #name;
    CAIRN_STATUS_LIST(CASE_NAME)
#undef CASE_NAME
  }
  return "UNKNOWN";
}

const cairn_error *cairn_last_error(void) {
  if (!t_error.view.message) crn_error_clear();
  return &t_error.view;
}

int cairn_last_error_text(char *buffer, int capacity) {
  if (!buffer) return 0;
  const cairn_error *e = cairn_last_error();
  char text[MESSAGE_BYTES + MAX_CONTEXT * CONTEXT_BYTES + 64];
  size_t n = (size_t)snprintf(text, sizeof text, "%s", e->message);
  for (int i = 0; i < e->n_context && n < sizeof text; i++) {
    n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", i ? "; " : " (", e->context[i]);
  }
  if (e->n_context && n < sizeof text) n += (size_t)snprintf(text + n, sizeof text - n, ")");
  if (capacity > 0) snprintf(buffer, (size_t)capacity, "%s", text);
  return (int)n;
}
