#include "text/grammar/tool_grammar.h"

#include <string.h>

#include "text/grammar/tool_state.h"

// --- what was asked for -----------------------------------------------------------------------------------------------------------

static cairn_status read_choice(crn_tool_grammar *t, const char *choice) {
  if (!choice || !strcmp(choice, "auto")) {
    t->choice = CRN_TOOLS_AUTO;
  } else if (!strcmp(choice, "required")) {
    t->choice = CRN_TOOLS_REQUIRED;
  } else if (!strcmp(choice, "none")) {
    t->choice = CRN_TOOLS_NONE;
  } else {
    t->choice = CRN_TOOLS_NAMED;
    CRN_TRY(crn_arena_strndup(&t->arena, choice, strlen(choice), &t->tool));
    for (size_t i = 0; i < json_array_size(t->tools); i++) {
      const char *name = crn_tool_name(t->tools, i);
      if (name && !strcmp(name, t->tool)) return CAIRN_OK;
    }
    return CRN_FAIL(INVALID_ARGUMENT, "tool choice '%s' is none of auto, required, none, and no tool has that name", choice);
  }
  return CAIRN_OK;
}

static cairn_status copy_text(crn_tool_grammar *t, const char *text, size_t bytes, const char **out) {
  *out = NULL;
  return text ? crn_arena_strndup(&t->arena, text, bytes, out) : CAIRN_OK;
}

static cairn_status read_source(crn_tool_grammar *t, cairn_context *context, const cairn_grammar_source *source) {
  const cairn_dialogue_options *o = source->dialogue;
  cairn_dialogue *d;
  cairn_dialogue_result result;
  if (!o || !o->tools) return CRN_FAIL(INVALID_ARGUMENT, "a grammar of tool calls needs the tools");
  t->dialogue = *o;
  t->dialogue.on_event = NULL;
  t->dialogue.user = NULL;
  CRN_TRY(copy_text(t, o->tools, o->tools_bytes, &t->dialogue.tools));
  CRN_TRY(copy_text(t, o->chat_template, o->chat_template_bytes, &t->dialogue.chat_template));
  CRN_TRY(copy_text(t, o->prompt, o->prompt_bytes, &t->dialogue.prompt));
  CRN_TRY(copy_text(t, o->reasoning_open, o->reasoning_open ? strlen(o->reasoning_open) : 0, &t->dialogue.reasoning_open));
  CRN_TRY(copy_text(t, o->reasoning_close, o->reasoning_close ? strlen(o->reasoning_close) : 0, &t->dialogue.reasoning_close));
  CRN_TRY(cairn_dialogue_create(context, &t->dialogue, &d));
  cairn_dialogue_get(d, &result);
  t->format = result.format;
  t->tools = json_incref(d->tools);
  cairn_dialogue_destroy(d);
  if (t->format == CAIRN_DIALOGUE_NONE) return CRN_FAIL(UNSUPPORTED, "the dialogue format 'none' has no tool calls");
  if (!json_array_size(t->tools)) return CRN_FAIL(INVALID_ARGUMENT, "a grammar of tool calls needs a tool");
  return read_choice(t, source->tool_choice);
}

static void initialize(crn_tool_grammar *t, const cairn_allocator *a) {
  crn_arena_initialize(&t->arena, a);
  pthread_mutex_init(&t->lock, NULL);
  t->has_lock = true;
}

static void deinitialize(crn_tool_grammar *t, const cairn_allocator *a) {
  for (size_t i = 0; i < t->compiled.size; i++) crn_xg_grammar_destroy(t->compiled.items[i].xg);
  crn_vec_free(a, &t->compiled);
  crn_vec_free(a, &t->triggers);
  crn_vec_free(a, &t->whole);
  json_decref(t->tools);
  cairn_tokenizer_release(t->tokenizer);
  if (t->has_lock) pthread_mutex_destroy(&t->lock);
  crn_arena_deinitialize(&t->arena);
}

// --- rules ------------------------------------------------------------------------------------------------------------------------

static cairn_status translate(const crn_tool_grammar *t, const cairn_allocator *a, const crn_tool_place *place, bool with_opening,
                              crn_str *out) {
  crn_rules rules;
  crn_rules_initialize(&rules, a);
  crn_tools_read(&rules, t->tools, place, with_opening);
  cairn_status status = crn_rules_write(&rules, out);
  crn_rules_deinitialize(&rules);
  return status;
}

// The place where a reply begins with a call.
static cairn_status beginning(const crn_tool_grammar *t, crn_tool_place *out) {
  const char *behind;
  if (!crn_tool_opening(t->format, out, &behind)) return CRN_FAIL(UNSUPPORTED, "the dialogue format has no tool calls");
  out->tool = t->tool;
  return CAIRN_OK;
}

cairn_status crn_tool_grammar_check(cairn_context *context, const cairn_grammar_source *source) {
  const cairn_allocator *a = &context->allocator;
  crn_tool_grammar t = {0};
  crn_tool_place place;
  crn_str rules;
  initialize(&t, a);
  crn_str_initialize(&rules, a);
  cairn_status status = read_source(&t, context, source);
  if (status == CAIRN_OK) status = beginning(&t, &place);
  if (status == CAIRN_OK) status = translate(&t, a, &place, true, &rules);
  crn_str_deinitialize(&rules);
  deinitialize(&t, a);
  return status;
}

static bool is_same_text(const char *a, const char *b) { return a == b || (a && b && !strcmp(a, b)); }

static bool is_same_place(const crn_tool_place *a, const crn_tool_place *b) {
  return a->kind == b->kind && is_same_text(a->end, b->end) && a->xml == b->xml && is_same_text(a->delimiter, b->delimiter) &&
         is_same_text(a->tool, b->tool) && a->is_named == b->is_named;
}

// The lock is held.
static cairn_status compile(cairn_grammar *g, const crn_tool_place *place, bool with_opening, crn_xg_grammar **out) {
  const cairn_allocator *a = &g->context->allocator;
  crn_tool_compiled made = {.place = *place, .with_opening = with_opening};
  crn_xg_error error;
  crn_str rules;
  crn_str_initialize(&rules, a);
  cairn_status status = crn_vec_reserve(a, &g->tools->compiled, 1);
  if (status == CAIRN_OK && place->tool) status = crn_arena_strndup(&g->tools->arena, place->tool, strlen(place->tool), &made.place.tool);
  if (status == CAIRN_OK) status = translate(g->tools, a, place, with_opening, &rules);
  if (status == CAIRN_OK)
    status = crn_xg_status(crn_xg_grammar_create(g->vocabulary->xg, rules.data, rules.size, &made.xg, &error), &error,
                           "compiling a grammar of tool calls");
  crn_str_deinitialize(&rules);
  CRN_TRY(status);
  g->tools->compiled.items[g->tools->compiled.size++] = made;
  *out = made.xg;
  return CAIRN_OK;
}

cairn_status crn_tool_grammar_at(cairn_grammar *g, const crn_tool_place *place, bool with_opening, crn_xg_grammar **out) {
  crn_tool_grammar *t = g->tools;
  cairn_status status = CAIRN_OK;
  *out = NULL;
  pthread_mutex_lock(&t->lock);
  for (size_t i = 0; i < t->compiled.size && !*out; i++) {
    const crn_tool_compiled *c = &t->compiled.items[i];
    if (c->with_opening == with_opening && is_same_place(&c->place, place)) *out = c->xg;
  }
  if (!*out) status = compile(g, place, with_opening, out);
  pthread_mutex_unlock(&t->lock);
  return status;
}

// --- making one ---------------------------------------------------------------------------------------------------------------------

// Markers that are special tokens have no text in other grammars.
static cairn_status find_markers(const crn_tool_grammar *t, cairn_context *context, crn_tool_markers *out) {
  cairn_dialogue *d;
  int n;
  CRN_TRY(cairn_dialogue_create(context, &t->dialogue, &d));
  const char *const *texts = cairn_dialogue_markers(d, &n);
  cairn_status status = CAIRN_OK;
  for (int i = 0; i < n && status == CAIRN_OK; i++) {
    const int32_t id = cairn_tokenizer_id(t->tokenizer, texts[i]);
    bool is_known = id < 0 || !cairn_tokenizer_is_special(t->tokenizer, id);
    for (size_t k = 0; k < out->size; k++) is_known = is_known || out->items[k] == id;
    if (!is_known) status = crn_vec_push(&context->allocator, out, id);
  }
  cairn_dialogue_destroy(d);
  return status;
}

static cairn_status find_triggers(crn_tool_grammar *t, const cairn_allocator *a) {
  crn_marker_vec markers = {0};
  cairn_status status = crn_format_markers(a, t->format, true, &markers);
  for (size_t i = 0; i < markers.size && status == CAIRN_OK; i++) {
    const crn_marker *m = &markers.items[i];
    if (m->action != CRN_MARKER_CALL || crn_tool_needs_name(m->kind)) continue;
    const crn_tool_place place = {
        .format = t->format, .kind = m->kind, .end = m->end, .xml = m->xml, .delimiter = m->delimiter ? m->delimiter : "", .tool = t->tool};
    status = crn_vec_push(a, &t->triggers, ((crn_tool_trigger){m->text, strlen(m->text), place}));
  }
  crn_vec_free(a, &markers);
  return status;
}

cairn_status crn_tool_grammar_create(cairn_grammar *g, const cairn_tokenizer *tokenizer, const cairn_grammar_source *source,
                                     crn_tool_markers *out_markers) {
  const cairn_allocator *a = &g->context->allocator;
  CRN_TRY(crn_alloc_zero(a, sizeof *g->tools, &g->tools));
  crn_tool_grammar *t = g->tools;
  initialize(t, a);
  t->tokenizer = (cairn_tokenizer *)tokenizer;
  cairn_tokenizer_retain(t->tokenizer);
  CRN_TRY(read_source(t, g->context, source));
  t->dialogue.tokenizer = tokenizer;
  CRN_TRY(find_triggers(t, a));
  return find_markers(t, g->context, out_markers);
}

// All calls are compiled at once, so that what cannot be kept is known before anything is generated.
cairn_status crn_tool_grammar_prepare(cairn_grammar *g) {
  const cairn_allocator *a = &g->context->allocator;
  const crn_vocabulary *v = g->vocabulary;
  crn_tool_grammar *t = g->tools;
  crn_xg_grammar *xg;
  crn_tool_place place;
  for (int64_t id = 0; id < v->n; id++) {
    const uint32_t begin = id ? v->ends[id - 1] : 0, n = v->ends[id] - begin;
    bool has = false;
    for (size_t i = 0; i < t->triggers.size && !has; i++) {
      has = n >= t->triggers.items[i].n && memmem(v->bytes + begin, n, t->triggers.items[i].text, t->triggers.items[i].n);
    }
    if (has) CRN_TRY(crn_vec_push(a, &t->whole, (int32_t)id));
  }
  CRN_TRY(beginning(t, &place));
  return crn_tool_grammar_at(g, &place, true, &xg);
}

void crn_tool_grammar_destroy(crn_tool_grammar *t, cairn_context *context) {
  if (!t) return;
  deinitialize(t, &context->allocator);
  crn_free(&context->allocator, t, sizeof *t);
}
