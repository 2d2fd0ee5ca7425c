#include "tools/guide.h"

#include <ctype.h>
#include <string.h>

#include "base/str.h"
#include "tools/text_source.h"

// The flag that says what the text looks like, NULL = none.
static const char *flag_of(const crn_guide_values *v) {
  return v->schema ? "--json-schema" : v->grammar ? "--grammar" : v->regex ? "--regex" : v->any_json ? "--any-json" : NULL;
}

int crn_guide_check(crn_tool *t, const crn_guide_values *v, const char *tool_choice, const char *force) {
  const int n = (v->schema != NULL) + (v->grammar != NULL) + (v->regex != NULL) + v->any_json;
  if (n > 1) return crn_tool_usage_error(t, "only one of --json-schema, --grammar, --regex and --any-json can be given");
  if (v->compact && !v->schema && !v->any_json) return crn_tool_usage_error(t, "--compact-json belongs to --json-schema and --any-json");
  const char *flag = flag_of(v) ? flag_of(v) : tool_choice ? "--tool-choice" : NULL;
  if (flag_of(v) && tool_choice)
    return crn_tool_usage_error(t, "--tool-choice and %s cannot be given together: both say what the text looks like", flag);
  if (flag && force) return crn_tool_usage_error(t, "--force gives the tokens that %s chooses; leave one of them out", flag);
  return TOOL_CONTINUE;
}

static bool is_schema(const char *text) {
  while (isspace((unsigned char)*text)) text++;
  return *text == '{' || !strcmp(text, "true") || !strcmp(text, "false");
}

static cairn_status set_text(crn_tool *t, const char *text, size_t bytes, cairn_grammar_source *out) {
  out->text_bytes = bytes;
  return crn_arena_strndup(t->arena, text, bytes, &out->text);
}

static cairn_status read_file(crn_tool *t, const char *path, cairn_grammar_source *out) {
  crn_str text;
  crn_str_initialize(&text, NULL);
  cairn_status status = crn_tool_read(path, &text);
  if (status == CAIRN_OK) status = set_text(t, text.data, text.size, out);
  crn_str_deinitialize(&text);
  return status;
}

cairn_status crn_guide_read(crn_tool *t, const crn_guide_values *v, cairn_grammar_source *out) {
  *out = (cairn_grammar_source){.compact = v->compact};
  if (v->schema) {
    out->kind = CAIRN_GRAMMAR_JSON_SCHEMA;
    CRN_TRY(is_schema(v->schema) ? set_text(t, v->schema, strlen(v->schema), out) : read_file(t, v->schema, out));
  } else if (v->grammar) {
    out->kind = CAIRN_GRAMMAR_EBNF;
    CRN_TRY(read_file(t, v->grammar, out));
  } else if (v->regex) {
    out->kind = CAIRN_GRAMMAR_REGEX;
    CRN_TRY(set_text(t, v->regex, strlen(v->regex), out));
  } else if (v->any_json) {
    out->kind = CAIRN_GRAMMAR_JSON;
  } else {
    return CAIRN_OK;
  }
  CRN_TRY(crn_tool_open_context(t));
  return cairn_grammar_check(t->context, out);
}

void crn_guide_report(crn_tool *t, const cairn_generation_info *info) {
  if (!info->guided || info->guide_complete) return;
  fflush(stdout);
  fprintf(stderr, "%sthe guided text is not complete (%s)\n", t->error_prefix, cairn_stop_reason_text(info->stop_reason));
}
