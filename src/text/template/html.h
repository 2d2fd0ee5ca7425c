/// HTML text: escaping, tags, entities.
#ifndef CRN_TEXT_TEMPLATE_HTML_H
#define CRN_TEXT_TEMPLATE_HTML_H

#include "text/template/value.h"

/// markupsafe.escape(): safe text as it is, anything else as text with & < > ' " replaced. The result is marked safe.
cairn_status crn_tmpl_escape(tmpl_render *r, tmpl_value v, tmpl_value *out);
cairn_status crn_tmpl_put_escaped(tmpl_render *r, tmpl_buffer *b, const char *text, size_t n);
/// html.unescape(): named and numeric character references become the characters.
cairn_status crn_tmpl_put_unescaped(tmpl_render *r, tmpl_buffer *b, const char *text, size_t n);

#endif
