#include "text/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdatomic.h>
#include <string.h>

#include "text/tokenizer/regex_program.h"

enum {
  MATCH_LIMIT = 10000000,  ///< backtracking steps; the reference engine gives up at the same number of retries
  HEAP_LIMIT_KIB = 65536,
  MAX_PATTERN_BYTES = 1 << 14,
  MAX_TRANSLATED_BYTES = 1 << 20,  ///< one \w of a pattern takes more than a thousand
};

struct crn_regex {
  const cairn_allocator *allocator;
  pcre2_code *code;
  pcre2_match_context *limits;
  char *what;
  size_t what_bytes;
  crn_str translated;  ///< empty for a plain string
  atomic_bool prepared;
  _Atomic(crn_regex_program *) program;  ///< NULL: not made yet, or the pattern is none for programs
};

void crn_regex_destroy(crn_regex *regex) {
  if (!regex) return;
  pcre2_code_free(regex->code);
  pcre2_match_context_free(regex->limits);
  crn_regex_program_destroy(atomic_load(&regex->program));
  crn_str_deinitialize(&regex->translated);
  if (regex->what) crn_free(regex->allocator, regex->what, regex->what_bytes);
  crn_free(regex->allocator, regex, sizeof *regex);
}

static cairn_status compile(crn_regex *regex, const char *pattern, size_t bytes, uint32_t options, const char *shown, const char *what) {
  int error;
  PCRE2_SIZE offset;
  pcre2_compile_context *context = pcre2_compile_context_create(NULL);
  if (!context) return CRN_FAIL(OUT_OF_MEMORY, "%s: no memory for a pattern", what);
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context, 100);
  regex->code = pcre2_compile((PCRE2_SPTR)pattern, bytes, options | PCRE2_UTF, &error, &offset, context);
  pcre2_compile_context_free(context);
  if (!regex->code) {
    char text[128] = "";
    pcre2_get_error_message(error, (PCRE2_UCHAR *)text, sizeof text);
    if (error == PCRE2_ERROR_NOMEMORY) return CRN_FAIL(OUT_OF_MEMORY, "%s: no memory for a pattern", what);
    return CRN_FAIL(UNSUPPORTED, "%s: pattern '%.200s' is not usable: %s", what, shown, text);
  }
  // A missing JIT only costs speed, so its result does not matter.
  (void)pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE);
  regex->limits = pcre2_match_context_create(NULL);
  if (!regex->limits) return CRN_FAIL(OUT_OF_MEMORY, "%s: no memory for a pattern", what);
  pcre2_set_match_limit(regex->limits, MATCH_LIMIT);
  pcre2_set_heap_limit(regex->limits, HEAP_LIMIT_KIB);
  return CAIRN_OK;
}

cairn_status crn_regex_create(const cairn_allocator *allocator, const char *pattern, size_t bytes, bool literal, const char *what,
                              crn_regex **out_regex) {
  crn_regex *regex = NULL;
  cairn_status status;
  *out_regex = NULL;
  CRN_TRY(crn_alloc_zero(allocator, sizeof *regex, &regex));
  crn_str *translated = &regex->translated;
  crn_str_initialize(translated, allocator);
  atomic_init(&regex->prepared, false);
  atomic_init(&regex->program, NULL);
  regex->allocator = allocator;
  regex->what_bytes = strlen(what) + 1;
  CRN_TRY_GOTO(crn_strndup(allocator, what, regex->what_bytes - 1, &regex->what));
  if (literal) {
    CRN_TRY_GOTO(compile(regex, pattern, bytes, PCRE2_LITERAL, pattern, what));
  } else {
    if (bytes <= MAX_PATTERN_BYTES) CRN_TRY_GOTO(crn_regex_translate(pattern, bytes, what, translated));
    if (bytes > MAX_PATTERN_BYTES || translated->size > MAX_TRANSLATED_BYTES) {
      status = CRN_FAIL(UNSUPPORTED, "%s: pattern '%.200s' is too long", what, pattern);
      goto done;
    }
    CRN_TRY_GOTO(compile(regex, translated->data, translated->size, PCRE2_MULTILINE | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, pattern, what));
  }
  *out_regex = regex;
  regex = NULL;
done:
  crn_regex_destroy(regex);
  return status;
}

cairn_status crn_regex_prepare(crn_regex *regex) {
  crn_regex_program *program, *none = NULL;
  if (atomic_load_explicit(&regex->prepared, memory_order_acquire) || !regex->translated.size) return CAIRN_OK;
  CRN_TRY(crn_regex_program_create(regex->allocator, regex->translated.data, regex->translated.size, &program));
  // Of several threads that come here at once the first one's program stays.
  if (!atomic_compare_exchange_strong(&regex->program, &none, program)) crn_regex_program_destroy(program);
  atomic_store_explicit(&regex->prepared, true, memory_order_release);
  return CAIRN_OK;
}

bool crn_regex_is_fast(const crn_regex *regex) { return atomic_load_explicit(&regex->program, memory_order_acquire) != NULL; }

cairn_status crn_regex_room_create(crn_regex_room **out_room) {
  pcre2_match_data *data = pcre2_match_data_create(1, NULL);
  if (!data) return CRN_FAIL(OUT_OF_MEMORY, "no memory for a match");
  // The room is the match data itself: it needs nothing beside it.
  *out_room = (crn_regex_room *)(void *)data;
  return CAIRN_OK;
}

void crn_regex_room_destroy(crn_regex_room *room) { pcre2_match_data_free((pcre2_match_data *)(void *)room); }

void crn_regex_walk_begin(crn_regex_walk *walk, const crn_regex *regex, crn_regex_room *room, const char *text, size_t bytes) {
  const crn_regex_program *program = atomic_load_explicit(&regex->program, memory_order_acquire);
  *walk = (crn_regex_walk){.regex = regex, .room = room, .text = text, .bytes = bytes, .program = program};
}

static int match(const crn_regex_walk *w, pcre2_match_data *data) {
  const crn_regex *r = w->regex;
  int rc = pcre2_match(r->code, (PCRE2_SPTR)w->text, w->bytes, w->at, PCRE2_NO_UTF_CHECK, data, r->limits);
  // The JIT works on a small fixed stack; the interpreter uses the heap and stays within its own limit.
  if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
    rc = pcre2_match(r->code, (PCRE2_SPTR)w->text, w->bytes, w->at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data, r->limits);
  return rc;
}

static cairn_status next_by_pcre2(crn_regex_walk *w, bool *out_found, size_t *out_begin, size_t *out_end) {
  pcre2_match_data *data = (pcre2_match_data *)(void *)w->room;
  while (w->at <= w->bytes) {
    int rc = match(w, data);
    if (rc == PCRE2_ERROR_NOMATCH) return CAIRN_OK;
    if (rc == PCRE2_ERROR_NOMEMORY) return CRN_FAIL(OUT_OF_MEMORY, "%s: no memory to match a pattern", w->regex->what);
    if (rc < 0) return CRN_FAIL(FAILED_PRECONDITION, "%s: the pattern exceeded its match limit on this text", w->regex->what);
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(data);
    size_t begin = ends[0], end = ends[1];
    if (begin > end) begin = end;
    if (begin == end && w->has_last && w->last_end == end) {
      w->at++;
      while (w->at < w->bytes && ((unsigned char)w->text[w->at] & 0xc0) == 0x80) w->at++;
      continue;
    }
    w->at = w->last_end = end;
    w->has_last = true;
    *out_found = true;
    *out_begin = begin;
    *out_end = end;
    return CAIRN_OK;
  }
  return CAIRN_OK;
}

cairn_status crn_regex_walk_next(crn_regex_walk *w, bool *out_found, size_t *out_begin, size_t *out_end) {
  *out_found = false;
  if (!w->program) return next_by_pcre2(w, out_found, out_begin, out_end);
  crn_regex_outcome outcome = crn_regex_program_find(w->program, w->text, w->bytes, w->at, out_begin, out_end);
  if (outcome == CRN_REGEX_TIRED) return next_by_pcre2(w, out_found, out_begin, out_end);
  *out_found = outcome == CRN_REGEX_FOUND;
  w->at = *out_found ? *out_end : w->bytes + 1;
  return CAIRN_OK;
}
