// Compiling grammars and keeping them.
#include <pthread.h>
#include <string.h>

#include "base/vec.h"
#include "cairn/tokenizer.h"
#include "text/grammar/internal.h"
#include "text/grammar/readers.h"
#include "text/grammar/tool_grammar.h"

enum { MAX_KEPT = 32, MAX_KEPT_BYTES = 64 << 20 };

typedef struct kept {
  cairn_grammar_source source;  ///< with a text of its own
  cairn_grammar *grammar;
} kept;

struct cairn_grammar_compiler {
  atomic_int references;
  cairn_context *context;
  cairn_tokenizer *tokenizer;
  crn_vocabulary *vocabulary;
  int64_t vocab_size;
  pthread_mutex_t lock;             ///< guards what follows
  crn_vocabulary *tool_vocabulary;  ///< of the last grammar of tool calls: it has the markers of a format
  CRN_VEC(int32_t) tool_markers;
  CRN_VEC(kept) kept;  ///< used last first
};

bool cairn_grammar_is_available(void) { return crn_xg_is_there(); }

cairn_status crn_xg_status(crn_xg_result result, const crn_xg_error *error, const char *what) {
  if (result == CRN_XG_OK) return CAIRN_OK;
  if (result == CRN_XG_CANCELLED) return CRN_FAIL(CANCELLED, "%s: cancelled", what);
  if (result == CRN_XG_NO_MEMORY) return CRN_FAIL(OUT_OF_MEMORY, "%s: no memory", what);
  return CRN_FAIL(INTERNAL, "%s: %s", what, error->text);
}

// --- translating ------------------------------------------------------------------------------------------------------------

static void read_source(crn_rules *rules, const cairn_grammar_source *source, const char *text) {
  switch (source->kind) {
    case CAIRN_GRAMMAR_JSON:
      crn_json_read_any(rules, source->compact);
      return;
    case CAIRN_GRAMMAR_JSON_SCHEMA:
      crn_schema_read(rules, text, source->text_bytes, source->compact);
      return;
    case CAIRN_GRAMMAR_REGEX: {
      int32_t start = crn_rule_new(rules);
      const crn_node *pattern = crn_regex_read(rules, text, source->text_bytes, "regular expression", true);
      crn_rule_set(rules, start, crn_language_single(rules, pattern, true));
      return;
    }
    case CAIRN_GRAMMAR_EBNF:
      crn_bnf_read(rules, text, source->text_bytes);
      crn_language_simplify(rules);
      return;
    default:
      crn_rules_fail(rules, CRN_FAIL(INVALID_ARGUMENT, "unknown kind of grammar %d", (int)source->kind));
  }
}

// Names all of it where nothing of it has a place of its own.
static cairn_status say_empty(cairn_grammar_kind kind, const char *text) {
  enum { SHOWN = 60 };
  const char *what = kind == CAIRN_GRAMMAR_JSON_SCHEMA ? "schema" : kind == CAIRN_GRAMMAR_REGEX ? "regular expression" : "grammar";
  const size_t bytes = strlen(text);
  size_t n = bytes < SHOWN ? bytes : SHOWN;
  while (n < bytes && n > 0 && ((unsigned char)text[n] & 0xC0) == 0x80) n--;
  return CRN_FAIL(INVALID_ARGUMENT, "the %s '%.*s%s': no text can ever satisfy this", what, (int)n, text, n < bytes ? "…" : "");
}

cairn_status crn_grammar_translate(cairn_context *context, const cairn_grammar_source *source, crn_str *out) {
  const cairn_allocator *a = &context->allocator;
  if (source->text_bytes > CRN_GRAMMAR_MAX_BYTES) {
    return CRN_FAIL(UNSUPPORTED, "a grammar of %zu bytes, at most %d are supported", source->text_bytes, CRN_GRAMMAR_MAX_BYTES);
  }
  char *text;  // ends in a NUL, which the readers' messages rely on
  CRN_TRY(crn_strndup(a, source->text ? source->text : "", source->text ? source->text_bytes : 0, &text));
  size_t room = (source->text ? source->text_bytes : 0) + 1;
  crn_rules rules;
  crn_rules_initialize(&rules, a);
  read_source(&rules, source, text);
  const bool is_read = !crn_rules_failed(&rules);
  cairn_status status = crn_rules_write(&rules, out);
  if (is_read && status == CAIRN_INVALID_ARGUMENT) status = say_empty(source->kind, text);
  crn_rules_deinitialize(&rules);
  crn_free(a, text, room);
  return status;
}

cairn_status cairn_grammar_check(cairn_context *context, const cairn_grammar_source *source) {
  CRN_REQUIRE(context);
  CRN_REQUIRE(source);
  if (source->kind == CAIRN_GRAMMAR_TOOL_CALLS) return crn_tool_grammar_check(context, source);
  crn_str rules;
  crn_str_initialize(&rules, &context->allocator);
  cairn_status status = crn_grammar_translate(context, source, &rules);
  crn_str_deinitialize(&rules);
  return status;
}

// --- grammars -----------------------------------------------------------------------------------------------------------------

void cairn_grammar_retain(cairn_grammar *g) {
  if (!g) return;
  atomic_fetch_add(&g->references, 1);
}

void cairn_grammar_release(cairn_grammar *g) {
  if (!g || atomic_fetch_sub(&g->references, 1) != 1) return;
  cairn_context *context = g->context;
  crn_tool_grammar_destroy(g->tools, context);
  crn_xg_grammar_destroy(g->xg);
  crn_vocabulary_release(g->vocabulary);
  crn_free(&context->allocator, g, sizeof *g);
  cairn_context_release(context);
}

int64_t cairn_grammar_vocab_size(const cairn_grammar *g) { return g ? g->vocabulary->n : 0; }

static cairn_status make(cairn_grammar_compiler *c, const cairn_grammar_source *source, cairn_grammar **out) {
  const cairn_allocator *a = &c->context->allocator;
  cairn_grammar *g = NULL;
  crn_str rules;
  crn_str_initialize(&rules, a);
  cairn_status status = crn_grammar_translate(c->context, source, &rules);
  if (status == CAIRN_OK) status = crn_alloc_zero(a, sizeof *g, &g);
  if (status == CAIRN_OK) {
    crn_xg_error error;
    g->references = 1;
    g->context = c->context;
    g->vocabulary = c->vocabulary;
    cairn_context_retain(c->context);
    crn_vocabulary_retain(c->vocabulary);
    status = crn_xg_status(crn_xg_grammar_create(c->vocabulary->xg, rules.data, rules.size, &g->xg, &error), &error, "compiling a grammar");
    if (status != CAIRN_OK) {
      cairn_grammar_release(g);
      g = NULL;
    }
  }
  crn_str_deinitialize(&rules);
  *out = g;
  return status;
}

// Vocabularies with the same markers are the same. The lock is held.
static cairn_status vocabulary_of_tools(cairn_grammar_compiler *c, const crn_tool_markers *markers, crn_vocabulary **out) {
  const cairn_allocator *a = &c->context->allocator;
  const size_t n = markers->size;
  if (!c->tool_vocabulary || c->tool_markers.size != n ||
      (n && memcmp(c->tool_markers.items, markers->items, n * sizeof *markers->items))) {
    crn_vocabulary *v;
    crn_xg_error error;
    CRN_TRY(crn_vocabulary_create(c->context, c->tokenizer, c->vocab_size, markers->items, n, &v));
    cairn_status status =
        crn_xg_status(crn_xg_vocab_create(v->bytes, v->ends, (int32_t)v->n, &v->xg, &error), &error, "reading a vocabulary");
    c->tool_markers.size = 0;
    if (status == CAIRN_OK) status = crn_vec_reserve(a, &c->tool_markers, n);
    if (status != CAIRN_OK) {
      crn_vocabulary_release(v);
      return status;
    }
    for (size_t i = 0; i < n; i++) c->tool_markers.items[c->tool_markers.size++] = markers->items[i];
    crn_vocabulary_release(c->tool_vocabulary);
    c->tool_vocabulary = v;
  }
  *out = c->tool_vocabulary;
  crn_vocabulary_retain(*out);
  return CAIRN_OK;
}

static cairn_status make_tools(cairn_grammar_compiler *c, const cairn_grammar_source *source, cairn_grammar **out) {
  const cairn_allocator *a = &c->context->allocator;
  crn_tool_markers markers = {0};
  cairn_grammar *g;
  CRN_TRY(crn_alloc_zero(a, sizeof *g, &g));
  g->references = 1;
  g->context = c->context;
  cairn_context_retain(c->context);
  cairn_status status = crn_tool_grammar_create(g, c->tokenizer, source, &markers);
  if (status == CAIRN_OK) {
    pthread_mutex_lock(&c->lock);
    status = vocabulary_of_tools(c, &markers, &g->vocabulary);
    pthread_mutex_unlock(&c->lock);
  }
  if (status == CAIRN_OK) status = crn_tool_grammar_prepare(g);
  crn_vec_free(a, &markers);
  if (status != CAIRN_OK) {
    cairn_grammar_release(g);
    g = NULL;
  }
  *out = g;
  return status;
}

// --- what is kept -------------------------------------------------------------------------------------------------------------

static bool is_same(const cairn_grammar_source *a, const cairn_grammar_source *b) {
  if (a->kind != b->kind || a->compact != b->compact) return false;
  return a->kind == CAIRN_GRAMMAR_JSON || (a->text_bytes == b->text_bytes && !memcmp(a->text, b->text, a->text_bytes));
}

static void drop(cairn_grammar_compiler *c, size_t i) {
  kept *k = &c->kept.items[i];
  cairn_grammar_release(k->grammar);
  crn_free(&c->context->allocator, (void *)k->source.text, k->source.text_bytes + 1);
  memmove(k, k + 1, (--c->kept.size - i) * sizeof *k);
}

// The one of a source, which is then the one used last. The lock is held.
static cairn_grammar *find(cairn_grammar_compiler *c, const cairn_grammar_source *source) {
  for (size_t i = 0; i < c->kept.size; i++) {
    if (!is_same(&c->kept.items[i].source, source)) continue;
    kept found = c->kept.items[i];
    memmove(c->kept.items + 1, c->kept.items, i * sizeof found);
    c->kept.items[0] = found;
    cairn_grammar_retain(found.grammar);
    return found.grammar;
  }
  return NULL;
}

static size_t kept_bytes(cairn_grammar_compiler *c) {
  size_t bytes = 0;
  for (size_t i = 0; i < c->kept.size; i++) bytes += crn_xg_grammar_bytes(c->kept.items[i].grammar->xg);
  return bytes;
}

// The lock is held.
static cairn_status keep(cairn_grammar_compiler *c, const cairn_grammar_source *source, cairn_grammar *grammar) {
  const cairn_allocator *a = &c->context->allocator;
  kept k = {.source = *source, .grammar = grammar};
  char *text;
  if (!source->text) k.source.text_bytes = 0;
  CRN_TRY(crn_strndup(a, source->text ? source->text : "", k.source.text_bytes, &text));
  k.source.text = text;
  cairn_status status = crn_vec_reserve(a, &c->kept, 1);
  if (status != CAIRN_OK) {
    crn_free(a, text, k.source.text_bytes + 1);
    return status;
  }
  memmove(c->kept.items + 1, c->kept.items, c->kept.size++ * sizeof k);
  c->kept.items[0] = k;
  cairn_grammar_retain(grammar);
  // Their masks grow as they are used, so it is looked at again and again. The newest one stays.
  while (c->kept.size > 1 && (c->kept.size > MAX_KEPT || kept_bytes(c) > MAX_KEPT_BYTES)) drop(c, c->kept.size - 1);
  return CAIRN_OK;
}

cairn_status cairn_grammar_compile(cairn_grammar_compiler *c, const cairn_grammar_source *source, cairn_grammar **out_grammar) {
  CRN_REQUIRE(out_grammar);
  *out_grammar = NULL;
  CRN_REQUIRE_NAMED(c, "compiler");
  CRN_REQUIRE(source);
  if (source->kind == CAIRN_GRAMMAR_TOOL_CALLS) return make_tools(c, source, out_grammar);
  pthread_mutex_lock(&c->lock);
  cairn_grammar *found = find(c, source);
  pthread_mutex_unlock(&c->lock);
  if (!found) {
    // Two threads may make the same one: both are right, and one of them is kept longer.
    CRN_TRY(make(c, source, &found));
    pthread_mutex_lock(&c->lock);
    cairn_status status = keep(c, source, found);
    pthread_mutex_unlock(&c->lock);
    if (status != CAIRN_OK) {
      cairn_grammar_release(found);
      return status;
    }
  }
  *out_grammar = found;
  return CAIRN_OK;
}

size_t cairn_grammar_compiler_bytes(cairn_grammar_compiler *c, int *out_n) {
  if (!c) return 0;
  pthread_mutex_lock(&c->lock);
  size_t bytes = kept_bytes(c);
  if (out_n) *out_n = (int)c->kept.size;
  pthread_mutex_unlock(&c->lock);
  return bytes;
}

// --- the compiler ---------------------------------------------------------------------------------------------------------------

void cairn_grammar_compiler_retain(cairn_grammar_compiler *c) {
  if (!c) return;
  atomic_fetch_add(&c->references, 1);
}

void cairn_grammar_compiler_release(cairn_grammar_compiler *c) {
  if (!c || atomic_fetch_sub(&c->references, 1) != 1) return;
  cairn_context *context = c->context;
  while (c->kept.size) drop(c, c->kept.size - 1);
  crn_vec_free(&context->allocator, &c->kept);
  crn_vec_free(&context->allocator, &c->tool_markers);
  crn_vocabulary_release(c->tool_vocabulary);
  crn_vocabulary_release(c->vocabulary);
  cairn_tokenizer_release(c->tokenizer);
  pthread_mutex_destroy(&c->lock);
  crn_free(&context->allocator, c, sizeof *c);
  cairn_context_release(context);
}

cairn_status cairn_grammar_compiler_create(cairn_context *context, cairn_tokenizer *tokenizer, int64_t vocab_size,
                                           cairn_grammar_compiler **out_compiler) {
  CRN_REQUIRE(out_compiler);
  *out_compiler = NULL;
  CRN_REQUIRE(context);
  CRN_REQUIRE(tokenizer);
  cairn_grammar_compiler *c;
  if (!crn_xg_is_there()) {
    return CRN_FAIL(UNSUPPORTED, "guided generation: this build has none, because xgrammar was not there when it was made");
  }
  CRN_TRY(crn_alloc_zero(&context->allocator, sizeof *c, &c));
  c->references = 1;
  c->context = context;
  c->tokenizer = tokenizer;
  c->vocab_size = vocab_size;
  cairn_context_retain(context);
  cairn_tokenizer_retain(tokenizer);
  pthread_mutex_init(&c->lock, NULL);
  cairn_status status = crn_vocabulary_create(context, tokenizer, vocab_size, NULL, 0, &c->vocabulary);
  if (status == CAIRN_OK) {
    crn_xg_error error;
    crn_vocabulary *v = c->vocabulary;
    status = crn_xg_status(crn_xg_vocab_create(v->bytes, v->ends, (int32_t)v->n, &v->xg, &error), &error, "reading a vocabulary");
  }
  if (status != CAIRN_OK) {
    cairn_grammar_compiler_release(c);
    return status;
  }
  *out_compiler = c;
  return CAIRN_OK;
}
