/// Filters: `value | name(arguments)`.
#ifndef CRN_TEXT_TEMPLATE_FILTERS_H
#define CRN_TEXT_TEMPLATE_FILTERS_H

#include "text/template/render.h"

typedef tmpl_method_fn tmpl_filter_fn;

struct tmpl_filter {
  const char *name;
  tmpl_filter_fn fn;
  const char *params;  ///< as for methods
  int n_required;
};

/// NULL when there is no filter of that name.
const tmpl_filter *crn_tmpl_filter_find(const tmpl_str *name);
cairn_status crn_tmpl_filter_apply(tmpl_render *r, const tmpl_filter *filter, tmpl_value v, const tmpl_args *args, tmpl_value *out);

#define FILTER(name, function, params, n_required) \
  cairn_status crn_tmpl_filter_##function(tmpl_render *r, tmpl_value v, const tmpl_value *argv, const tmpl_args *all, tmpl_value *out);
#include "text/template/filters.def"
#undef FILTER

#endif
