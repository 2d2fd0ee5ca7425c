#include "base/failure.h"

#include <stdatomic.h>
#include <string.h>

struct crn_failure {
  atomic_int references;
  const cairn_allocator *allocator;
  size_t bytes;
  cairn_status code;
  const char *file;  // a constant of the program, as in every record: the thread's record keeps the address
  int line, n_context;
  char texts[];  // message, notes: each with its NUL
};

static void put(char **at, const char *text) {
  size_t n = strlen(text) + 1;
  memcpy(*at, text, n);
  *at += n;
}

crn_failure *crn_failure_capture(const cairn_allocator *allocator) {
  const cairn_error *e = cairn_last_error();
  crn_failure *f;
  size_t bytes = sizeof *f + strlen(e->message) + 1;
  for (int i = 0; i < e->n_context; i++) bytes += strlen(e->context[i]) + 1;
  if (crn_alloc(allocator, bytes, &f) != CAIRN_OK) return NULL;
  *f = (crn_failure){.allocator = allocator, .bytes = bytes, .code = e->code, .file = e->file, .line = e->line, .n_context = e->n_context};
  atomic_init(&f->references, 1);
  char *at = f->texts;
  put(&at, e->message);
  for (int i = 0; i < e->n_context; i++) put(&at, e->context[i]);
  return f;
}

crn_failure *crn_failure_retain(crn_failure *f) {
  if (f) atomic_fetch_add_explicit(&f->references, 1, memory_order_relaxed);
  return f;
}

void crn_failure_release(crn_failure *f) {
  if (!f || atomic_fetch_sub_explicit(&f->references, 1, memory_order_acq_rel) != 1) return;
  crn_free(f->allocator, f, f->bytes);
}

cairn_status crn_failure_restore(const crn_failure *f, cairn_status code) {
  if (!f) {
    crn_error_restore(code, cairn_status_text(code));
    return code;
  }
  const char *message = f->texts, *note = message + strlen(message) + 1;
  crn_fail(code, f->file, f->line, "%s", message);
  for (int i = 0; i < f->n_context; i++) {
    crn_note(code, "%s", note);
    note += strlen(note) + 1;
  }
  return code;
}
