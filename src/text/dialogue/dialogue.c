/// Creation, and the text outside of tool calls.
#include <string.h>

#include "text/dialogue/internal.h"

enum { DEFAULT_CALL_BYTES = 1 << 20, DEFAULT_DEPTH = 100, DEFAULT_CALLS = 128, MAX_TAG_BYTES = 64 };

// --- creation -------------------------------------------------------------------------------------------------------

static cairn_status check_options(const cairn_dialogue_options *o) {
  if ((o->reasoning_open != NULL) != (o->reasoning_close != NULL))
    return CRN_FAIL(INVALID_ARGUMENT, "reasoning tags: one of the two was given; both or none are expected");
  if (o->reasoning_open) {
    size_t open = strlen(o->reasoning_open), close = strlen(o->reasoning_close);
    if (!open || !close || open > MAX_TAG_BYTES || close > MAX_TAG_BYTES)
      return CRN_FAIL(INVALID_ARGUMENT, "reasoning tags must have 1 to %d bytes", MAX_TAG_BYTES);
  }
  if (o->max_depth < 0 || o->max_depth > CRN_LITERAL_MAX_DEPTH)
    return CRN_FAIL(INVALID_ARGUMENT, "max_depth %d: 1 to %d (or 0 for %d) is expected", o->max_depth, CRN_LITERAL_MAX_DEPTH,
                    DEFAULT_DEPTH);
  if (o->max_calls < 0)
    return CRN_FAIL(INVALID_ARGUMENT, "max_calls %d: a positive number (or 0 for %d) is expected", o->max_calls, DEFAULT_CALLS);
  if (!cairn_dialogue_format_text(o->format) || (unsigned)o->format > CAIRN_DIALOGUE_AGENTIC)
    return CRN_FAIL(INVALID_ARGUMENT, "%d is no dialogue format", (int)o->format);
  return CAIRN_OK;
}

static cairn_status add_reasoning_markers(cairn_dialogue *d, const cairn_dialogue_options *o) {
  const char *open = o->reasoning_open, *close = o->reasoning_close;
  if (!open && (d->format == CAIRN_DIALOGUE_HARMONY || d->format == CAIRN_DIALOGUE_AGENTIC)) return CAIRN_OK;
  if (!open) crn_format_reasoning(d->format, o->chat_template, o->chat_template_bytes, o->tokenizer, &open, &close);
  CRN_TRY(crn_arena_strndup(&d->arena, open, strlen(open), &open));
  CRN_TRY(crn_arena_strndup(&d->arena, close, strlen(close), &close));
  const crn_marker markers[] = {{.text = open, .action = CRN_MARKER_OPEN_REASONING, .in_content = true},
                                {.text = close, .action = CRN_MARKER_CLOSE_REASONING, .in_reasoning = true}};
  for (int i = 0; i < 2; i++) CRN_TRY(crn_vec_push(&d->context->allocator, &d->markers, markers[i]));
  return CAIRN_OK;
}

static cairn_status add_markers(cairn_dialogue *d, const cairn_dialogue_options *o) {
  const cairn_allocator *a = &d->context->allocator;
  bool bare = o->format != CAIRN_DIALOGUE_AUTO || json_array_size(d->tools) > 0;
  CRN_TRY(add_reasoning_markers(d, o));
  CRN_TRY(crn_format_markers(a, d->format, bare, &d->markers));
  for (size_t i = 0; i < d->markers.size; i++) {
    const crn_marker *m = &d->markers.items[i];
    CRN_TRY(crn_vec_push(a, &d->marker_texts, m->text));
    if (m->end) CRN_TRY(crn_vec_push(a, &d->marker_texts, m->end));
    if (m->delimiter) CRN_TRY(crn_vec_push(a, &d->marker_texts, m->delimiter));
  }
  // Tokens inside of the forms that are no start of anything.
  static const char *const kInner[] = {"<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>", "[ARGS]", "[CALL_ID]"};
  for (size_t i = 0; i < sizeof kInner / sizeof *kInner; i++) CRN_TRY(crn_vec_push(a, &d->marker_texts, kInner[i]));
  return CAIRN_OK;
}

// --- what the prompt leaves open ------------------------------------------------------------------------------------

static bool ends_with(const char *text, size_t n, const char *end) {
  size_t k = strlen(end);
  return n >= k && !memcmp(text + n - k, end, k);
}

// A reply in the middle of a channel's header or body goes on there.
static cairn_status open_frame(cairn_dialogue *d, const char *prompt, size_t n) {
  static const char kStart[] = "<|start|>assistant";
  const char *at = NULL;
  for (const char *p = prompt; (p = memmem(p, n - (size_t)(p - prompt), kStart, strlen(kStart))); p++) at = p;
  if (!at) return CAIRN_OK;
  at += strlen(kStart);
  size_t rest = n - (size_t)(at - prompt);
  if (!rest) return CAIRN_OK;
  // Read like generated text. What was said in the prompt is no part of the reply.
  CRN_TRY(cairn_dialogue_push(d, at, rest));
  for (int i = 0; i < 2; i++) {
    crn_str_clear(&d->sides[i].text);
    d->sides[i].sent = 0;
  }
  return CAIRN_OK;
}

static cairn_status apply_prompt(cairn_dialogue *d, const cairn_dialogue_options *o) {
  const char *prompt = o->prompt ? o->prompt : "";
  size_t n = o->prompt ? o->prompt_bytes : 0;
  bool starts = o->starts_in_reasoning;
  if (d->format == CAIRN_DIALOGUE_HARMONY || d->format == CAIRN_DIALOGUE_AGENTIC) {
    // An agent thinks before it says whom it talks to.
    if (starts || d->format == CAIRN_DIALOGUE_AGENTIC) CRN_TRY(crn_sink_section(d, CRN_SECTION_REASONING));
    return n ? open_frame(d, prompt, n) : CAIRN_OK;
  }
  while (n && crn_is_space(prompt[n - 1])) n--;
  for (size_t i = 0; i < d->markers.size && !starts; i++) {
    const crn_marker *m = &d->markers.items[i];
    starts = m->action == CRN_MARKER_OPEN_REASONING && ends_with(prompt, n, m->text);
  }
  return starts ? crn_sink_section(d, CRN_SECTION_REASONING) : CAIRN_OK;
}

static void initialize(cairn_dialogue *d, cairn_context *context) {
  const cairn_allocator *a = &context->allocator;
  cairn_context_retain(context);
  d->context = context;
  crn_arena_initialize(&d->arena, a);
  crn_str *const kTexts[] = {&d->held,      &d->header,   &d->blanks,  &d->sides[0].text, &d->sides[1].text, &d->call.raw,
                             &d->call.text, &d->call.key, &d->call.id, &d->call.name,     &d->call.arguments};
  for (size_t i = 0; i < sizeof kTexts / sizeof *kTexts; i++) crn_str_initialize(kTexts[i], a);
  crn_literal_initialize(&d->call.literal, a);
  d->is_at_start = true;
}

cairn_status cairn_dialogue_create(cairn_context *context, const cairn_dialogue_options *options, cairn_dialogue **out_dialogue) {
  CRN_REQUIRE(out_dialogue);
  *out_dialogue = NULL;
  CRN_REQUIRE(context);
  static const cairn_dialogue_options kDefaults;
  const cairn_dialogue_options *o = options ? options : &kDefaults;
  cairn_dialogue *d;
  CRN_TRY(check_options(o));
  CRN_TRY(crn_alloc_zero(&context->allocator, sizeof *d, &d));
  initialize(d, context);
  d->trim = o->trim;
  d->max_call_bytes = o->max_call_bytes ? o->max_call_bytes : DEFAULT_CALL_BYTES;
  d->max_depth = o->max_depth ? o->max_depth : DEFAULT_DEPTH;
  d->max_calls = o->max_calls ? o->max_calls : DEFAULT_CALLS;
  d->format = o->format;
  if (d->format == CAIRN_DIALOGUE_AUTO) d->format = cairn_dialogue_detect(o->chat_template, o->chat_template_bytes, o->tokenizer);
  cairn_status status = CAIRN_OK;
  if (o->tools) status = crn_schema_load(d, o->tools, o->tools_bytes);
  if (status == CAIRN_OK) status = add_markers(d, o);
  if (status == CAIRN_OK) status = apply_prompt(d, o);
  if (status != CAIRN_OK) {
    cairn_dialogue_destroy(d);
    return status;
  }
  d->on_event = o->on_event;
  d->user = o->user;
  *out_dialogue = d;
  return CAIRN_OK;
}

void cairn_dialogue_destroy(cairn_dialogue *d) {
  if (!d) return;
  cairn_context *context = d->context;
  const cairn_allocator *a = &context->allocator;
  crn_str *const kTexts[] = {&d->held,      &d->header,   &d->blanks,  &d->sides[0].text, &d->sides[1].text, &d->call.raw,
                             &d->call.text, &d->call.key, &d->call.id, &d->call.name,     &d->call.arguments};
  for (size_t i = 0; i < sizeof kTexts / sizeof *kTexts; i++) crn_str_deinitialize(kTexts[i]);
  crn_literal_deinitialize(&d->call.literal);
  crn_vec_free(a, &d->markers);
  crn_vec_free(a, &d->marker_texts);
  crn_vec_free(a, &d->calls);
  crn_vec_free(a, &d->warnings);
  json_decref(d->tools);
  crn_arena_deinitialize(&d->arena);
  crn_free(a, d, sizeof *d);
  cairn_context_release(context);
}

// --- text and markers -----------------------------------------------------------------------------------------------

static bool is_active(const cairn_dialogue *d, const crn_marker *m) {
  if (m->only_at_start && !d->is_at_start) return false;
  return d->section == CRN_SECTION_CONTENT ? m->in_content : m->in_reasoning;
}

// The marker that `held` is, or NULL with `*out_may` telling whether it can become one.
static const crn_marker *find_marker(const cairn_dialogue *d, bool *out_may) {
  *out_may = false;
  for (size_t i = 0; i < d->markers.size; i++) {
    const crn_marker *m = &d->markers.items[i];
    if (m->text[0] != d->held.data[0] || !is_active(d, m)) continue;
    size_t n = strlen(m->text);
    if (n < d->held.size || memcmp(m->text, d->held.data, d->held.size) != 0) continue;
    if (n == d->held.size) return m;
    *out_may = true;
  }
  return NULL;
}

static cairn_status act(cairn_dialogue *d, const crn_marker *m) {
  switch (m->action) {
    case CRN_MARKER_OPEN_REASONING:
      return crn_sink_section(d, CRN_SECTION_REASONING);
    case CRN_MARKER_CLOSE_REASONING:
      d->is_at_start = true;  // the message proper begins behind the thoughts
      return crn_sink_section(d, CRN_SECTION_CONTENT);
    case CRN_MARKER_CALL:
      return crn_call_enter(d, m);
    default:
      return crn_frame_marker(d, m);
  }
}

static cairn_status give_first(cairn_dialogue *d) {
  char c = d->held.data[0];
  CRN_TRY(crn_sink_text(d, &c, 1, false));
  if (!crn_is_space(c)) d->is_at_start = false;
  d->held.size--;
  memmove(d->held.data, d->held.data + 1, d->held.size + 1);
  return CAIRN_OK;
}

static cairn_status push_text(cairn_dialogue *d, char byte) {
  CRN_TRY(crn_str_putc(&d->held, byte));
  while (d->held.size) {
    bool may = false;
    const crn_marker *m = find_marker(d, &may);
    if (m) {
      crn_str_clear(&d->held);
      return act(d, m);
    }
    if (may) return CAIRN_OK;
    CRN_TRY(give_first(d));
  }
  return CAIRN_OK;
}

static cairn_status push_byte(cairn_dialogue *d, char byte) {
  bool taken = true;
  if (d->in_header) return crn_frame_push(d, byte);
  if (d->in_call) {
    CRN_TRY(crn_call_push(d, byte, &taken));
    if (taken) return CAIRN_OK;
  }
  return push_text(d, byte);
}

static cairn_status check_open(const cairn_dialogue *d) {
  if (d->has_failed) return CRN_FAIL(FAILED_PRECONDITION, "the dialogue failed before and takes nothing more");
  if (d->is_over) return CRN_FAIL(FAILED_PRECONDITION, "the dialogue is finished and takes nothing more");
  return CAIRN_OK;
}

cairn_status cairn_dialogue_push(cairn_dialogue *d, const char *text, size_t bytes) {
  CRN_REQUIRE_NAMED(d, "dialogue");
  CRN_REQUIRE_SOME(text, bytes);
  CRN_TRY(check_open(d));
  for (size_t i = 0; i < bytes; i++) {
    cairn_status status = push_byte(d, text[i]);
    if (status == CAIRN_OK) continue;
    d->has_failed = true;
    return status;
  }
  crn_sink_flush(d, false);
  return CAIRN_OK;
}

static cairn_status finish(cairn_dialogue *d) {
  if (d->in_header) CRN_TRY(crn_frame_finish(d));
  if (d->in_call) CRN_TRY(crn_call_finish(d));
  while (d->held.size) CRN_TRY(give_first(d));
  return crn_sink_finish(d);
}

cairn_status cairn_dialogue_finish(cairn_dialogue *d) {
  CRN_REQUIRE_NAMED(d, "dialogue");
  CRN_TRY(check_open(d));
  cairn_status status = finish(d);
  d->is_over = true;
  d->has_failed = status != CAIRN_OK;
  return status;
}

// --- results --------------------------------------------------------------------------------------------------------

void cairn_dialogue_get(const cairn_dialogue *d, cairn_dialogue_result *out_result) {
  if (!out_result) return;
  if (!d) {
    *out_result = (cairn_dialogue_result){0};
    return;
  }
  const crn_str *content = &d->sides[CRN_SECTION_CONTENT].text, *reasoning = &d->sides[CRN_SECTION_REASONING].text;
  *out_result = (cairn_dialogue_result){.format = d->format,
                                        .content = content->data,
                                        .content_bytes = content->size,
                                        .reasoning = reasoning->data,
                                        .reasoning_bytes = reasoning->size,
                                        .n_calls = (int)d->calls.size,
                                        .calls = d->calls.items,
                                        .n_malformed = d->n_malformed,
                                        .n_warnings = (int)d->warnings.size,
                                        .warnings = d->warnings.items};
}

const char *const *cairn_dialogue_markers(const cairn_dialogue *d, int *out_n) {
  if (!d || !out_n) return NULL;
  *out_n = (int)d->marker_texts.size;
  return d->marker_texts.items;
}
