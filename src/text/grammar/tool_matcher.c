// Where a reply with tool calls is. Text is free, and the parser of dialogues that will take it apart reads along; where that parser enters
// a call, a grammar of bytes takes over until the call is complete.
#include <string.h>

#include "text/grammar/tool_state.h"

struct crn_tool_matcher {
  cairn_grammar *grammar;  ///< borrowed
  const crn_xg_cancel *cancel;
  cairn_dialogue *dialogue;
  crn_xg_matcher *xg;    ///< of the call that is being written, NULL = text is free
  crn_call_kind kind;    ///< of that call
  const char *form_end;  ///< that closes its form, NULL = nothing does
  int utf8;              ///< where the text of the call is within a character
  bool was_in_call;      ///< as the parser said behind the last byte
  bool is_ignored;       ///< the call the parser is in is not guided
  bool is_due;           ///< a call has to come yet
  bool is_over;          ///< nothing may follow any more
  CRN_VEC(int32_t) tokens;
};

static const cairn_allocator *allocator_of(const crn_tool_matcher *m) { return &m->grammar->context->allocator; }

static const char *bytes_of(const crn_vocabulary *v, int64_t token, size_t *out_n) {
  const uint32_t begin = token ? v->ends[token - 1] : 0;
  *out_n = v->ends[token] - begin;
  return v->bytes + begin;
}

// --- life ---------------------------------------------------------------------------------------------------------------------------

static bool in_reasoning(const crn_tool_matcher *m) { return m->dialogue->section == CRN_SECTION_REASONING; }

static cairn_status start_call(crn_tool_matcher *m, const crn_tool_place *place, bool with_opening) {
  crn_xg_grammar *xg;
  crn_xg_error error;
  CRN_TRY(crn_tool_grammar_at(m->grammar, place, with_opening, &xg));
  CRN_TRY(crn_xg_status(crn_xg_matcher_create(xg, &m->xg, &error), &error, "matching a tool call"));
  m->kind = place->kind;
  m->form_end = place->end;
  m->utf8 = CRN_UTF8_START;
  return CAIRN_OK;
}

// A call that must come begins at once, unless the reply begins in reasoning.
static cairn_status start_due_call(crn_tool_matcher *m) {
  const char *behind;
  crn_tool_place place;
  const bool has_channels = m->grammar->tools->format == CAIRN_DIALOGUE_HARMONY || m->grammar->tools->format == CAIRN_DIALOGUE_AGENTIC;
  if (!m->is_due || m->xg || m->was_in_call || (in_reasoning(m) && !has_channels)) return CAIRN_OK;
  crn_tool_opening(m->grammar->tools->format, &place, &behind);
  place.tool = m->grammar->tools->tool;
  return start_call(m, &place, true);
}

static void clear(crn_tool_matcher *m) {
  crn_xg_matcher_destroy(m->xg);
  cairn_dialogue_destroy(m->dialogue);
  m->xg = NULL;
  m->dialogue = NULL;
  m->was_in_call = m->is_ignored = m->is_over = false;
  m->tokens.size = 0;
}

static cairn_status begin(crn_tool_matcher *m) {
  const crn_tool_grammar *t = m->grammar->tools;
  clear(m);
  CRN_TRY(cairn_dialogue_create(m->grammar->context, &t->dialogue, &m->dialogue));
  m->is_due = t->choice == CRN_TOOLS_REQUIRED || t->choice == CRN_TOOLS_NAMED;
  m->was_in_call = m->dialogue->in_call;
  return start_due_call(m);
}

cairn_status crn_tool_matcher_create(cairn_grammar *grammar, const crn_xg_cancel *cancel, crn_tool_matcher **out) {
  crn_tool_matcher *m;
  CRN_TRY(crn_alloc_zero(&grammar->context->allocator, sizeof *m, &m));
  m->grammar = grammar;
  m->cancel = cancel;
  cairn_status status = begin(m);
  if (status != CAIRN_OK) {
    crn_tool_matcher_destroy(m);
    return status;
  }
  *out = m;
  return CAIRN_OK;
}

void crn_tool_matcher_destroy(crn_tool_matcher *m) {
  if (!m) return;
  const cairn_allocator *a = allocator_of(m);
  clear(m);
  crn_vec_free(a, &m->tokens);
  crn_free(a, m, sizeof *m);
}

// Tokens that were taken are taken again: parsers have no way back.
static cairn_status take_all(crn_tool_matcher *m, const int32_t *tokens, size_t n) {
  for (size_t i = 0; i < n; i++) {
    bool accepted;
    CRN_TRY(crn_tool_matcher_accept(m, tokens[i], &accepted));
    if (!accepted) return CRN_FAIL(INTERNAL, "token %d of a reply is not accepted a second time", tokens[i]);
  }
  return CAIRN_OK;
}

cairn_status crn_tool_matcher_fork(const crn_tool_matcher *from, const crn_xg_cancel *cancel, crn_tool_matcher **out) {
  CRN_TRY(crn_tool_matcher_create(from->grammar, cancel, out));
  cairn_status status = take_all(*out, from->tokens.items, from->tokens.size);
  if (status == CAIRN_OK) return CAIRN_OK;
  crn_tool_matcher_destroy(*out);
  *out = NULL;
  return status;
}

cairn_status crn_tool_matcher_go_back(crn_tool_matcher *m, size_t n) {
  const cairn_allocator *a = allocator_of(m);
  int32_t *kept;
  if (n >= m->tokens.size) return CAIRN_OK;
  CRN_TRY(crn_alloc_array(a, n, sizeof *kept, &kept));
  if (n) memcpy(kept, m->tokens.items, n * sizeof *kept);
  cairn_status status = begin(m);
  if (status == CAIRN_OK) status = take_all(m, kept, n);
  crn_free(a, kept, n * sizeof *kept);
  return status;
}

// --- calls that begin -----------------------------------------------------------------------------------------------------------------

static const crn_xml_dialect *dialect_of(const crn_call *c) {
  static const crn_xml_dialect *const kDialects[] = {&crn_xml_functions, &crn_xml_atem, &crn_xml_invoke};
  for (size_t i = 0; i < sizeof kDialects / sizeof *kDialects; i++) {
    if (c->xml.call && !strcmp(c->xml.call, kDialects[i]->call)) return kDialects[i];
  }
  return NULL;
}

static bool is_tool(const crn_tool_matcher *m, const char *name) {
  const crn_tool_grammar *t = m->grammar->tools;
  return t->tool ? !strcmp(t->tool, name) : crn_schema_has(t->tools, name);
}

// Whether the last byte began a call. Forms that may be no calls are such once they have named a tool.
static bool has_begun(crn_tool_matcher *m, crn_tool_place *out) {
  const crn_call *c = &m->dialogue->call;
  const bool needs_name = crn_tool_needs_name(c->kind);
  if (!m->dialogue->in_call) m->is_ignored = false;
  if (!m->dialogue->in_call || m->is_ignored || (m->was_in_call && !needs_name)) return false;
  if (needs_name && (!c->has_name || c->has_arguments || c->arguments.size > 1 || !is_tool(m, c->name.data))) return false;
  // The arguments came first, or the call is wrapped: rare ways, in which text stays free.
  if (c->kind == CRN_CALL_BARE && (c->object.nesting || c->object.is_text == false || c->text.size == 0)) return false;
  *out = (crn_tool_place){.format = m->grammar->tools->format,
                          .kind = c->kind,
                          .end = c->end,
                          .xml = dialect_of(c),
                          .delimiter = c->literal.delimiter,
                          .tool = needs_name ? c->name.data : m->grammar->tools->tool,
                          .is_named = needs_name};
  return true;
}

// Behind a call of these forms the parser takes more as a part of it. So nothing follows.
static bool ends_reply(const crn_tool_matcher *m) {
  return m->kind == CRN_CALL_BARE || m->kind == CRN_CALL_BARE_LIST || m->kind == CRN_CALL_PYTHON_TAG ||
         (m->kind == CRN_CALL_XML && !m->form_end);
}

// Whether a call is complete and nothing can belong to it any more.
static cairn_status end_call_if_over(crn_tool_matcher *m) {
  const crn_vocabulary *v = m->grammar->vocabulary;
  uint32_t *words;
  crn_xg_error error;
  bool goes_on = false;
  if (m->utf8 != CRN_UTF8_START || !crn_xg_matcher_is_complete(m->xg)) return CAIRN_OK;
  CRN_TRY(crn_alloc_array(allocator_of(m), (size_t)v->n_words, sizeof *words, &words));
  cairn_status status = crn_xg_status(crn_xg_matcher_fill(m->xg, words, m->cancel, &error), &error, "finding what may follow");
  for (int64_t i = 0; i < v->n_words; i++) goes_on = goes_on || (words[i] & v->valid[i]);
  crn_free(allocator_of(m), words, (size_t)v->n_words * sizeof *words);
  CRN_TRY(status);
  m->is_due = false;
  if (goes_on) return CAIRN_OK;
  crn_xg_matcher_destroy(m->xg);
  m->xg = NULL;
  m->is_over = ends_reply(m) || m->grammar->tools->choice == CRN_TOOLS_NAMED;
  return CAIRN_OK;
}

static cairn_status push_to_parser(crn_tool_matcher *m, const char *bytes, size_t n) {
  // A parser that has met a limit of its own reads no further; whoever takes the reply apart is told so.
  if (m->dialogue->has_failed) return CAIRN_OK;
  cairn_status status = cairn_dialogue_push(m->dialogue, bytes, n);
  return status == CAIRN_OUT_OF_MEMORY ? status : CAIRN_OK;
}

// The rest of the token in which a call began. Masks leave no token whose rest does not fit; should one come, its call is not guided.
static cairn_status begin_call(crn_tool_matcher *m, const crn_tool_place *place, const char *rest, size_t n) {
  crn_xg_error error;
  bool accepted = true;
  CRN_TRY(start_call(m, place, false));
  if (n) CRN_TRY(crn_xg_status(crn_xg_matcher_accept_bytes(m->xg, rest, n, &accepted, &error), &error, "beginning a tool call"));
  CRN_TRY(push_to_parser(m, rest, n));
  m->was_in_call = m->dialogue->in_call;
  for (size_t i = 0; i < n && m->utf8 != CRN_UTF8_BROKEN; i++) m->utf8 = crn_utf8_step(m->utf8, (unsigned char)rest[i]);
  if (accepted && m->utf8 != CRN_UTF8_BROKEN) return end_call_if_over(m);
  crn_xg_matcher_destroy(m->xg);
  m->xg = NULL;
  m->is_ignored = m->dialogue->in_call;
  return CAIRN_OK;
}

static cairn_status take_free(crn_tool_matcher *m, const char *bytes, size_t n) {
  const crn_tool_choice choice = m->grammar->tools->choice;
  for (size_t i = 0; i < n; i++) {
    crn_tool_place place;
    CRN_TRY(push_to_parser(m, bytes + i, 1));
    const bool begins = choice != CRN_TOOLS_NONE && has_begun(m, &place);
    m->was_in_call = m->dialogue->in_call;
    if (begins) return begin_call(m, &place, bytes + i + 1, n - i - 1);
  }
  return start_due_call(m);
}

static cairn_status take_in_call(crn_tool_matcher *m, int32_t token, const char *bytes, size_t n, bool *out_accepted) {
  const int utf8 = crn_vocabulary_step(m->grammar->vocabulary, m->utf8, token);
  crn_xg_error error;
  *out_accepted = false;
  if (utf8 == CRN_UTF8_BROKEN) return CAIRN_OK;
  CRN_TRY(crn_xg_status(crn_xg_matcher_accept(m->xg, token, out_accepted, &error), &error, "taking a token"));
  if (!*out_accepted) return CAIRN_OK;
  m->utf8 = utf8;
  CRN_TRY(push_to_parser(m, bytes, n));
  m->was_in_call = m->dialogue->in_call;
  return end_call_if_over(m);
}

cairn_status crn_tool_matcher_accept(crn_tool_matcher *m, int32_t token, bool *out_accepted) {
  size_t n;
  const char *bytes = bytes_of(m->grammar->vocabulary, token, &n);
  *out_accepted = false;
  if (m->is_over) return CAIRN_OK;
  CRN_TRY(crn_vec_reserve(allocator_of(m), &m->tokens, 1));
  if (m->xg) {
    CRN_TRY(take_in_call(m, token, bytes, n, out_accepted));
  } else {
    *out_accepted = true;
    CRN_TRY(take_free(m, bytes, n));
  }
  if (*out_accepted) m->tokens.items[m->tokens.size++] = token;
  return CAIRN_OK;
}

bool crn_tool_matcher_is_complete(const crn_tool_matcher *m) {
  if (m->xg) return !m->is_due && m->utf8 == CRN_UTF8_START && crn_xg_matcher_is_complete(m->xg);
  return !m->is_due;
}

cairn_status crn_tool_matcher_forced(crn_tool_matcher *m, char *out_bytes, size_t capacity, size_t *out_n) {
  crn_xg_error error;
  *out_n = 0;
  if (!m->xg) return CAIRN_OK;
  return crn_xg_status(crn_xg_matcher_forced(m->xg, out_bytes, capacity, out_n, &error), &error, "finding what must follow");
}

// --- masks of free text -------------------------------------------------------------------------------------------------------------

static void refuse(uint32_t *words, int64_t token) { words[token / 32] &= ~(1u << token % 32); }

// Whether a call that begins at a place may go on like this.
static cairn_status may_go_on(crn_tool_matcher *m, const crn_tool_place *place, const char *rest, size_t n, bool *out_may) {
  crn_xg_grammar *xg;
  crn_xg_matcher *probe;
  crn_xg_error error;
  *out_may = n == 0;
  if (!n) return CAIRN_OK;
  CRN_TRY(crn_tool_grammar_at(m->grammar, place, false, &xg));
  CRN_TRY(crn_xg_status(crn_xg_matcher_create(xg, &probe, &error), &error, "matching a tool call"));
  cairn_status status = crn_xg_status(crn_xg_matcher_accept_bytes(probe, rest, n, out_may, &error), &error, "beginning a tool call");
  crn_xg_matcher_destroy(probe);
  return status;
}

// A token with a text in which a call begins stays only when what it has behind that fits.
static cairn_status check_token(crn_tool_matcher *m, uint32_t *words, int64_t token, const crn_tool_place *place, size_t skipped) {
  size_t n;
  const char *bytes = bytes_of(m->grammar->vocabulary, token, &n);
  bool may = false;
  if (m->grammar->tools->choice != CRN_TOOLS_NONE) CRN_TRY(may_go_on(m, place, bytes + skipped, n - skipped, &may));
  if (!may) refuse(words, token);
  return CAIRN_OK;
}

// Tokens that go on with the last bytes of `needle`, of which all before them stand already.
static cairn_status check_tokens_with(crn_tool_matcher *m, uint32_t *words, const char *needle, size_t n_needle,
                                      const crn_tool_place *place) {
  const crn_vocabulary *v = m->grammar->vocabulary;
  for (int64_t id = 0; id < v->n; id++) {
    size_t n;
    const char *bytes = bytes_of(v, id, &n);
    if (n < n_needle || *bytes != *needle || memcmp(bytes, needle, n_needle)) continue;
    CRN_TRY(check_token(m, words, id, place, n_needle));
  }
  return CAIRN_OK;
}

static cairn_status check_triggers(crn_tool_matcher *m, uint32_t *words) {
  const crn_tool_grammar *t = m->grammar->tools;
  const crn_str *held = &m->dialogue->held;
  for (size_t i = 0; i < t->triggers.size; i++) {
    const crn_tool_trigger *g = &t->triggers.items[i];
    for (size_t k = 0; k < t->whole.size; k++) {
      size_t n;
      const char *bytes = bytes_of(m->grammar->vocabulary, t->whole.items[k], &n), *at = memmem(bytes, n, g->text, g->n);
      if (at) CRN_TRY(check_token(m, words, t->whole.items[k], &g->place, (size_t)(at - bytes) + g->n));
    }
    const bool has_begun_text = held->size > 0 && held->size < g->n && !memcmp(held->data, g->text, held->size);
    if (has_begun_text) CRN_TRY(check_tokens_with(m, words, g->text + held->size, g->n - held->size, &g->place));
  }
  return CAIRN_OK;
}

// The name of a tool is being written in a form that is a call once it is: with the byte behind the name the call begins.
static cairn_status check_names(crn_tool_matcher *m, uint32_t *words) {
  const crn_call *c = &m->dialogue->call;
  const json_t *tools = m->grammar->tools->tools;
  const bool is_list = c->kind == CRN_CALL_BARE_LIST;
  const char *written = c->text.data + (!is_list && c->text.size > 0);
  const size_t n_written = c->text.size - (!is_list && c->text.size > 0);
  if (c->has_name || (c->kind != CRN_CALL_BARE && !is_list) || m->grammar->tools->choice == CRN_TOOLS_NONE) return CAIRN_OK;
  if (!is_list && (!c->text.size || c->text.data[0] != '"')) return CAIRN_OK;
  for (size_t i = 0; i < json_array_size(tools); i++) {
    const char *name = crn_tool_name(tools, i);
    char rest[256];
    if (!name || !is_tool(m, name) || strlen(name) < n_written || memcmp(name, written, n_written)) continue;
    const int n = snprintf(rest, sizeof rest, "%s%s", name + n_written, is_list ? "(" : "\"");
    if (n <= 0 || n >= (int)sizeof rest) continue;
    const crn_tool_place place = {.format = m->grammar->tools->format, .kind = c->kind, .delimiter = "", .tool = name, .is_named = true};
    CRN_TRY(check_tokens_with(m, words, rest, (size_t)n, &place));
  }
  return CAIRN_OK;
}

static cairn_status fill_free(crn_tool_matcher *m, uint32_t *words) {
  const crn_vocabulary *v = m->grammar->vocabulary;
  for (int64_t i = 0; i < v->n_words; i++) words[i] = m->is_over ? 0 : UINT32_MAX;
  if (m->is_over) return CAIRN_OK;
  if (v->n % 32) words[v->n_words - 1] = (1u << v->n % 32) - 1;
  if (m->dialogue->in_call) return check_names(m, words);
  return in_reasoning(m) ? CAIRN_OK : check_triggers(m, words);
}

cairn_status crn_tool_matcher_fill(crn_tool_matcher *m, uint32_t *words) {
  const crn_vocabulary *v = m->grammar->vocabulary;
  crn_xg_error error;
  if (!m->xg) return fill_free(m, words);
  CRN_TRY(crn_xg_status(crn_xg_matcher_fill(m->xg, words, m->cancel, &error), &error, "finding what may follow"));
  const uint32_t *valid = v->valid + (size_t)m->utf8 * (size_t)v->n_words;
  for (int64_t i = 0; i < v->n_words; i++) words[i] &= valid[i];
  return CAIRN_OK;
}
