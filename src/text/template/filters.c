#include "text/template/filters.h"

static const tmpl_filter g_filters[] = {
#define FILTER(name, function, params, n_required) {#name, crn_tmpl_filter_##function, params, n_required},
#include "text/template/filters.def"
#undef FILTER
};

const tmpl_filter *crn_tmpl_filter_find(const tmpl_str *name) {
  for (size_t i = 0; i < sizeof g_filters / sizeof *g_filters; i++) {
    if (crn_tmpl_str_is(name, g_filters[i].name)) return &g_filters[i];
  }
  return NULL;
}

cairn_status crn_tmpl_filter_apply(tmpl_render *r, const tmpl_filter *filter, tmpl_value v, const tmpl_args *args, tmpl_value *out) {
  tmpl_value argv[TMPL_MAX_PARAMS];
  if (filter->params) CRN_TRY(crn_tmpl_bind(r, filter->name, filter->params, filter->n_required, args, argv));
  return filter->fn(r, v, argv, args, out);
}
