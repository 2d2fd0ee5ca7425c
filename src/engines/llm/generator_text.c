/// From tokens to text, events and the end of a generation.
#include <string.h>

#include "base/trace.h"
#include "engines/llm/guide.h"

void crn_generator_end(crn_generator *g, cairn_stop_reason reason) {
  g->result->reason = reason;
  g->is_over = true;
}

// --- text -----------------------------------------------------------------------------------------------------------

static cairn_status send(crn_generator *g, int32_t token) {
  crn_str *piece = &g->piece;
  CRN_TRY(crn_str_append(&g->result->text, piece->data, piece->size));
  if (!g->options->on_token || g->has_left) return CAIRN_OK;
  const cairn_token_event event = {
      .index = (int64_t)g->result->tokens.size - 1, .token = token, .text = piece->data, .text_bytes = piece->size};
  if (!g->options->on_token(g->options->user, &event)) {
    g->has_left = true;
    if (!g->is_over) crn_generator_end(g, CAIRN_STOP_CANCELLED);
  }
  return CAIRN_OK;
}

// Whether a special token is hidden although the detokenizer shows them: some are shown, and this is none of them.
static bool is_hidden(const crn_generator *g, int32_t token) {
  const cairn_generate_options *o = g->options;
  if (o->keep_special_tokens || o->n_shown_special_tokens <= 0 || !cairn_tokenizer_is_special(g->llm->model->text.tokenizer, token))
    return false;
  const char *spelling = cairn_tokenizer_token(g->llm->model->text.tokenizer, token);
  for (int i = 0; spelling && i < o->n_shown_special_tokens; i++) {
    if (strcmp(o->shown_special_tokens[i], spelling) == 0) return false;
  }
  return true;
}

// Turns a token into text; what may begin a stop text is held back.
static cairn_status add_text(crn_generator *g, int32_t token) {
  if (!g->detokenizer || is_hidden(g, token)) return CAIRN_OK;
  const char *text;
  size_t bytes;
  int match;
  CRN_TRY(cairn_detokenizer_push(g->detokenizer, token, &text, &bytes));
  CRN_TRY(crn_stop_texts_push(&g->stops, text, bytes, &g->piece, &match));
  if (match < 0) return CAIRN_OK;
  g->has_cut = true;
  crn_generator_end(g, CAIRN_STOP_SEQUENCE);
  return crn_str_puts(&g->result->stop_text, g->stops.texts[match]);
}

cairn_status crn_generator_finish_text(crn_generator *g) {
  if (!g->detokenizer || g->has_cut) return CAIRN_OK;
  const char *text;
  size_t bytes;
  int match;
  crn_str_clear(&g->piece);
  CRN_TRY(cairn_detokenizer_finish(g->detokenizer, &text, &bytes));
  CRN_TRY(crn_stop_texts_push(&g->stops, text, bytes, &g->piece, &match));
  if (match < 0) CRN_TRY(crn_stop_texts_flush(&g->stops, &g->piece));
  return g->piece.size ? send(g, -1) : CAIRN_OK;
}

// --- tokens ---------------------------------------------------------------------------------------------------------

static bool is_among(const int32_t *ids, size_t n, int32_t token) {
  for (size_t i = 0; i < n; i++) {
    if (ids[i] == token) return true;
  }
  return false;
}

// A stop text that is a special token never shows up in the text; it is recognised by its id.
static const char *stop_text_of(const crn_generator *g, int32_t token) {
  const cairn_tokenizer *t = g->llm->model->text.tokenizer;
  const char *spelling = t && cairn_tokenizer_is_special(t, token) ? cairn_tokenizer_token(t, token) : NULL;
  for (int i = 0; spelling && i < g->options->n_stop; i++) {
    if (strcmp(g->options->stop[i], spelling) == 0) return spelling;
  }
  return NULL;
}

bool crn_generator_is_stop(const crn_generator *g, int32_t token, cairn_stop_reason *out_reason) {
  const cairn_generate_options *o = g->options;
  *out_reason = CAIRN_STOP_SEQUENCE;
  if (is_among(o->stop_ids, o->n_stop_ids, token) || stop_text_of(g, token)) return true;
  *out_reason = CAIRN_STOP_EOS;
  return !o->ignore_eos && is_among(g->llm->model->text.stop_ids.items, g->llm->model->text.stop_ids.size, token);
}

static cairn_status check_stop_ids(crn_generator *g, int32_t token) {
  cairn_stop_reason reason;
  if (!crn_generator_is_stop(g, token, &reason)) return CAIRN_OK;
  const char *spelling = g->llm->model->text.tokenizer ? cairn_tokenizer_token(g->llm->model->text.tokenizer, token) : NULL;
  crn_generator_end(g, reason);
  return spelling ? crn_str_puts(&g->result->stop_text, spelling) : CAIRN_OK;
}

cairn_status crn_generator_give(crn_generator *g, int32_t token) {
  if (g->first == 0) g->first = crn_seconds_now();
  CRN_TRY(crn_vec_push(&g->llm->context->allocator, &g->result->tokens, token));
  crn_str_clear(&g->piece);
  if (!g->is_forced) CRN_TRY(check_stop_ids(g, token));
  const int64_t start = crn_trace_begin(g->llm->context);
  if (!g->is_over) CRN_TRY(add_text(g, token));
  if (!g->is_over && g->guide && crn_guide_is_last(g->guide, (int64_t)g->result->tokens.size - 1)) crn_generator_end(g, CAIRN_STOP_GRAMMAR);
  cairn_status status = send(g, token);
  CRN_TRACE_END(g->llm->context, start, "engine", NULL, "Give out %lld", (long long)(g->result->prompt.size + g->result->tokens.size) - 1);
  return status;
}
