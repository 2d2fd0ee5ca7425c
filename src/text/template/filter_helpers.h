/// What the files of filters share.
#ifndef CRN_TEXT_TEMPLATE_FILTER_HELPERS_H
#define CRN_TEXT_TEMPLATE_FILTER_HELPERS_H

#include "text/template/filters.h"
#include "text/template/methods.h"
#include "text/template/text.h"

#define FILTER_FN(name) \
  cairn_status crn_tmpl_filter_##name(tmpl_render *r, tmpl_value v, const tmpl_value *argv, const tmpl_args *all, tmpl_value *out)
#define UNUSED_ARGS (void)r, (void)v, (void)argv, (void)all, (void)out

static inline bool tmpl_given(tmpl_value v) { return v.type != TMPL_MISSING; }
static inline bool tmpl_flag(tmpl_value v, bool otherwise) { return tmpl_given(v) ? crn_tmpl_truth(v) : otherwise; }

/// Looks up an attribute path such as "address.city" or 0 in an item.
typedef struct tmpl_getter {
  tmpl_items parts;      ///< names and indexes
  bool fold_case;        ///< strings are compared in lower case
  tmpl_value otherwise;  ///< in place of undefined values, unless MISSING
} tmpl_getter;

/// `attribute` may be MISSING or None: the item itself.
cairn_status crn_tmpl_getter_make(tmpl_render *r, tmpl_value attribute, bool fold_case, tmpl_getter *out);
cairn_status crn_tmpl_getter_get(tmpl_render *r, const tmpl_getter *g, tmpl_value item, tmpl_value *out);

/// Sorts `items` by `keys` (as many), stably. Errors: FAILED_PRECONDITION when keys have no order.
cairn_status crn_tmpl_sort(tmpl_render *r, tmpl_value *items, tmpl_value *keys, size_t n, bool reverse);

#endif
