/// Methods of the types a template can see; the table is methods.def.
#ifndef CRN_TEXT_TEMPLATE_METHODS_H
#define CRN_TEXT_TEMPLATE_METHODS_H

#include "text/template/render.h"

#define DECLARE(type, name) \
  cairn_status crn_tmpl_##type##_##name(tmpl_render *r, tmpl_value self, const tmpl_value *argv, const tmpl_args *all, tmpl_value *out);
#define STR(name, params, n_required) DECLARE(str, name)
#define DICT(name, params, n_required) DECLARE(dict, name)
#define SEQUENCE(name, params, n_required) DECLARE(sequence, name)
#define NUMBER(name, params, n_required) DECLARE(number, name)
#define CYCLER(name, params, n_required) DECLARE(cycler, name)
#include "text/template/methods.def"
#undef DECLARE

/// Arguments of methods and filters, with Python's complaints about wrong types.
cairn_status crn_tmpl_arg_int(tmpl_render *r, tmpl_value v, int64_t otherwise, int64_t *out);
/// NULL for MISSING and None.
cairn_status crn_tmpl_arg_str(tmpl_render *r, tmpl_value v, const tmpl_str **out);
cairn_status crn_tmpl_need_str(tmpl_render *r, tmpl_value v, const tmpl_str **out);

#endif
