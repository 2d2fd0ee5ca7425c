#include "tools/speculation.h"

#include <string.h>

static cairn_speculation_mode mode_of(const crn_speculation_values *v) {
  if (!v->mode) return v->draft ? CAIRN_SPECULATION_DRAFT : CAIRN_SPECULATION_OFF;
  if (strcmp(v->mode, "auto") == 0) return CAIRN_SPECULATION_AUTO;
  if (strcmp(v->mode, "lookup") == 0) return CAIRN_SPECULATION_LOOKUP;
  return strcmp(v->mode, "draft") == 0 ? CAIRN_SPECULATION_DRAFT : CAIRN_SPECULATION_OFF;
}

int crn_speculation_check(crn_tool *t, const crn_speculation_values *v) {
  const cairn_speculation_mode mode = mode_of(v);
  if (mode == CAIRN_SPECULATION_DRAFT && !v->draft) return crn_tool_usage_error(t, "--speculate draft needs --draft PATH");
  if (v->draft && (mode == CAIRN_SPECULATION_OFF || mode == CAIRN_SPECULATION_LOOKUP))
    return crn_tool_usage_error(t, "--draft belongs to --speculate draft and --speculate auto");
  if (v->max_draft.given && mode == CAIRN_SPECULATION_OFF) return crn_tool_usage_error(t, "--max-draft belongs to --speculate or --draft");
  return TOOL_CONTINUE;
}

cairn_status crn_speculation_open(crn_tool *t, const crn_speculation_values *v, const crn_generation_values *generation,
                                  cairn_llm **out_draft) {
  const crn_generation_values own = {.precision = generation->precision,
                                     .device = generation->device,
                                     .strict_hash = generation->strict_hash,
                                     .frequent_reshapes = generation->frequent_reshapes};
  *out_draft = NULL;
  if (!v->draft) return CAIRN_OK;
  cairn_status status = crn_generation_open(t, v->draft, &own, CRN_NEED_IDS, out_draft);
  return status == CAIRN_OK ? status : crn_note(status, "the draft model");
}

void crn_speculation_fill(const crn_speculation_values *v, cairn_llm *draft, cairn_generate_options *o) {
  o->speculation = (cairn_speculation){.mode = mode_of(v), .draft = draft, .max_draft = (int32_t)v->max_draft.value};
}

static bool is_about_drafts(const cairn_generation_info *info) { return info->speculates || info->speculation_note[0]; }

void crn_speculation_note(crn_tool *t, const cairn_generation_info *info) {
  if (info->speculation_note[0]) crn_tool_note(t, "note: drafts: %s", info->speculation_note);
  if (!info->speculates) return;
  crn_tool_note(t, "[drafts: %lld of %lld tokens right; %lld tokens in %lld runs]", (long long)info->accepted_tokens,
                (long long)info->drafted_tokens, (long long)info->decode_tokens, (long long)info->decode_runs);
}

void crn_speculation_write(crn_json_writer *w, const cairn_generation_info *info) {
  if (!is_about_drafts(info)) return;
  crn_jw_key(w, "speculation");
  crn_jw_open_inline_object(w);
  crn_jw_put_integer(w, "drafted", info->drafted_tokens);
  crn_jw_put_integer(w, "accepted", info->accepted_tokens);
  crn_jw_put_integer(w, "runs", info->decode_runs);
  if (info->speculation_note[0]) crn_jw_put_text(w, "note", info->speculation_note);
  crn_jw_close_object(w);
}
