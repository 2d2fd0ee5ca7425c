/// Tests: `value is name(arguments)`.
#ifndef CRN_TEXT_TEMPLATE_TESTS_H
#define CRN_TEXT_TEMPLATE_TESTS_H

#include "text/template/render.h"

typedef cairn_status (*tmpl_test_fn)(tmpl_render *r, tmpl_value v, tmpl_value argument, bool *out);

struct tmpl_test {
  const char *name;
  tmpl_test_fn fn;
  const char *param;  ///< the name of its one argument; NULL when it has none, "/" when it has no name
};

/// NULL when there is no test of that name.
const tmpl_test *crn_tmpl_test_find(const tmpl_str *name);
cairn_status crn_tmpl_test_apply(tmpl_render *r, const tmpl_test *test, tmpl_value v, const tmpl_args *args, bool *out);

#endif
