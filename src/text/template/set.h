/// Inside of cairn_template_set.
#ifndef CRN_TEXT_TEMPLATE_SET_H
#define CRN_TEXT_TEMPLATE_SET_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"
#include "cairn/template.h"

typedef struct tmpl_named {
  const char *name, *source;
  size_t source_bytes;
  cairn_template *compiled;  ///< NULL: it cannot be used
  cairn_status status;       ///< why
  const char *message;
} tmpl_named;

struct cairn_template_set {
  atomic_int references;
  cairn_context *context;
  crn_arena arena;  ///< names, sources, messages
  CRN_VEC(tmpl_named) templates;
};

/// Adds a template; a name that is there already is replaced. `what` names it in messages. Errors: OUT_OF_MEMORY.
cairn_status crn_tmpl_set_add(cairn_template_set *set, const char *name, const char *source, size_t bytes, const char *what);

#endif
