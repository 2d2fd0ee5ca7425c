// Grammars of every kind over a small byte-level vocabulary: what they take and refuse, masks against trying every token, the way back.
#include <regex.h>

#include "text/tokenizer/test_support.h"

#include "base/alloc.h"
#include "cairn/grammar.h"
#include "text/grammar/internal.h"

typedef struct fixture {
  cairn_context *context;
  cairn_tokenizer *tokenizer;
  cairn_grammar_compiler *compiler;
  int32_t stop;
} fixture;

static int setup(void **state) {
  static fixture f;
  f.context = test_context();
  assert_int_equal(cairn_tokenizer_open(f.context, CAIRN_TEST_DATA "/grammar/tokenizer.json", &f.tokenizer), CAIRN_OK);
  f.stop = cairn_tokenizer_id(f.tokenizer, "<eos>");
  // Wider than the tokenizer: the ids above are in no mask.
  const int64_t width = cairn_tokenizer_vocab_size(f.tokenizer) + 70;
  if (cairn_grammar_is_available()) assert_int_equal(cairn_grammar_compiler_create(f.context, f.tokenizer, width, &f.compiler), CAIRN_OK);
  *state = &f;
  return 0;
}

static int teardown(void **state) {
  fixture *f = *state;
  cairn_grammar_compiler_release(f->compiler);
  cairn_tokenizer_release(f->tokenizer);
  cairn_context_release(f->context);
  return 0;
}

static void need_library(void) {
  if (!cairn_grammar_is_available()) skip();
}

static cairn_grammar_source source_of(const char *kind, const char *text) {
  cairn_grammar_source s = {.text = text, .text_bytes = strlen(text)};
  s.kind = !strcmp(kind, "json")     ? CAIRN_GRAMMAR_JSON
           : !strcmp(kind, "schema") ? CAIRN_GRAMMAR_JSON_SCHEMA
           : !strcmp(kind, "regex")  ? CAIRN_GRAMMAR_REGEX
                                     : CAIRN_GRAMMAR_EBNF;
  return s;
}

static cairn_grammar *compile(const fixture *f, const char *kind, const char *text) {
  cairn_grammar *grammar;
  const cairn_grammar_source source = source_of(kind, text);
  if (cairn_grammar_compile(f->compiler, &source, &grammar) != CAIRN_OK) fail_msg("%s: %s", text, cairn_last_error()->message);
  return grammar;
}

static cairn_matcher *match(const fixture *f, const char *kind, const char *text) {
  cairn_grammar *grammar = compile(f, kind, text);
  cairn_matcher *matcher;
  assert_int_equal(cairn_matcher_create(grammar, &f->stop, 1, &matcher), CAIRN_OK);
  cairn_grammar_release(grammar);
  return matcher;
}

static bool take(cairn_matcher *m, int32_t token) {
  bool accepted;
  assert_int_equal(cairn_matcher_accept(m, token, &accepted), CAIRN_OK);
  return accepted;
}

// The first 256 tokens are the bytes.
static size_t take_text(cairn_matcher *m, const char *text) {
  size_t n = 0;
  while (text[n] && take(m, (unsigned char)text[n])) n++;
  return n;
}

static bool takes_whole(const fixture *f, const char *kind, const char *grammar, const char *text) {
  cairn_matcher *m = match(f, kind, grammar);
  const bool whole = take_text(m, text) == strlen(text) && cairn_matcher_is_complete(m);
  cairn_matcher_destroy(m);
  return whole;
}

static void test_cases(void **state) {
  const fixture *f = *state;
  need_library();
  json_t *all = test_json_file(CAIRN_TEST_DATA "/grammar/cases.json"), *c, *text;
  size_t i, k;
  json_array_foreach(json_object_get(all, "cases"), i, c) {
    const char *kind = json_string_value(json_object_get(c, "kind")), *grammar = json_string_value(json_object_get(c, "text"));
    json_array_foreach(json_object_get(c, "accept"), k, text) {
      if (!takes_whole(f, kind, grammar, json_string_value(text))) fail_msg("%s does not take %s", grammar, json_string_value(text));
    }
    json_array_foreach(json_object_get(c, "reject"), k, text) {
      if (takes_whole(f, kind, grammar, json_string_value(text))) fail_msg("%s takes %s", grammar, json_string_value(text));
    }
  }
  json_decref(all);
}

static void test_refused(void **state) {
  const fixture *f = *state;
  json_t *all = test_json_file(CAIRN_TEST_DATA "/grammar/cases.json"), *c;
  size_t i;
  json_array_foreach(json_object_get(all, "refused"), i, c) {
    const char *text = json_string_value(json_object_get(c, "text")), *message = json_string_value(json_object_get(c, "message"));
    const cairn_grammar_source source = source_of(json_string_value(json_object_get(c, "kind")), text);
    const cairn_status status = cairn_grammar_check(f->context, &source);
    if (status != CAIRN_INVALID_ARGUMENT && status != CAIRN_UNSUPPORTED) fail_msg("%s: status %d", text, status);
    if (!strstr(cairn_last_error()->message, message)) fail_msg("%s: '%s' is not in: %s", text, message, cairn_last_error()->message);
    const char *place = strstr(cairn_last_error()->message, "the schema: #");
    if (place && strstr(place + 1, "the schema: #")) fail_msg("%s: two places in: %s", text, cairn_last_error()->message);
  }
  json_decref(all);
}

// --- masks ------------------------------------------------------------------------------------------------------------------------

static bool is_set(const uint32_t *words, int32_t i) { return words[i / 32] >> i % 32 & 1; }

// Every token is allowed exactly when a second matcher takes it.
static int64_t check_mask(const fixture *f, cairn_matcher *m, uint32_t *words, int n_repeats, const char *what) {
  const int64_t n = cairn_tokenizer_vocab_size(f->tokenizer) + 70;
  int64_t allowed, counted = 0;
  cairn_matcher *other;
  assert_int_equal(cairn_matcher_mask(m, words, 16, &allowed), CAIRN_OK);
  // Masks of states that are met often come from elsewhere.
  for (int again = 0; again < n_repeats; again++) {
    uint32_t same[16];
    assert_int_equal(cairn_matcher_mask(m, same, 16, NULL), CAIRN_OK);
    assert_memory_equal(same, words, sizeof same);
  }
  assert_int_equal(cairn_matcher_fork(m, &other), CAIRN_OK);
  for (int32_t id = 0; id < n; id++) {
    const bool accepted = take(other, id);
    if (accepted != is_set(words, id))
      fail_msg("%s: token %d is %s the mask, and %s", what, id, accepted ? "not in" : "in", accepted ? "taken" : "not");
    if (accepted) assert_int_equal(cairn_matcher_rollback(other, 1), CAIRN_OK);
    counted += accepted;
  }
  assert_int_equal(counted, allowed);
  cairn_matcher_destroy(other);
  return allowed;
}

static int32_t pick(const uint32_t *words, int64_t which) {
  for (int32_t id = 0;; id++) {
    if (is_set(words, id) && which-- == 0) return id;
  }
}

static uint64_t next_random(uint64_t *s) {
  *s ^= *s << 13;
  *s ^= *s >> 7;
  return *s ^= *s << 17;
}

// A random text of a grammar, checked at every step; what is finished must be JSON when the grammar is a schema.
static void walk(const fixture *f, const char *kind, const char *grammar, const char *what, int n_repeats, uint64_t seed) {
  cairn_matcher *m = match(f, kind, grammar);
  uint32_t words[16];
  char text[4096];
  size_t bytes = 0;
  for (int step = 0; step < 60; step++) {
    const int64_t allowed = check_mask(f, m, words, n_repeats, what);
    if (!allowed) fail_msg("%s: nothing may follow '%.*s'", what, (int)bytes, text);
    int32_t id =
        is_set(words, f->stop) && next_random(&seed) % 3 == 0 ? f->stop : pick(words, (int64_t)(next_random(&seed) % (uint64_t)allowed));
    size_t n;
    assert_true(take(m, id));
    if (id == f->stop) break;
    assert_int_equal(cairn_tokenizer_token_bytes(f->tokenizer, id, text + bytes, sizeof text - bytes, &n), CAIRN_OK);
    bytes += n;
  }
  if (cairn_matcher_is_terminated(m) && strcmp(kind, "regex") && strcmp(kind, "ebnf")) {
    json_error_t error;
    json_t *json = json_loadb(text, bytes, JSON_DECODE_ANY, &error);
    if (!json) fail_msg("%s: '%.*s' is no JSON: %s", what, (int)bytes, text, error.text);
    json_decref(json);
  }
  cairn_matcher_destroy(m);
}

static void test_masks_of_schemas(void **state) {
  const fixture *f = *state;
  need_library();
  json_t *all = test_json_file(CAIRN_TEST_DATA "/grammar/schemas.json"), *schema;
  const char *name;
  uint64_t seed = 88172645463325252u;
  assert_true(json_object_size(all) >= 50);
  json_object_foreach(all, name, schema) {
    char *text = json_dumps(schema, JSON_ENCODE_ANY);
    for (int i = 0; i < 3; i++) walk(f, "schema", text, name, i ? 0 : 80, next_random(&seed));
    free(text);
  }
  json_decref(all);
}

static void test_masks_of_cases(void **state) {
  const fixture *f = *state;
  need_library();
  json_t *all = test_json_file(CAIRN_TEST_DATA "/grammar/cases.json"), *c;
  size_t i;
  uint64_t seed = 362436069362436069u;
  json_array_foreach(json_object_get(all, "cases"), i, c) {
    const char *grammar = json_string_value(json_object_get(c, "text"));
    for (int repeats = 0; repeats <= 80; repeats += 80)
      walk(f, json_string_value(json_object_get(c, "kind")), grammar, grammar, repeats, next_random(&seed));
  }
  json_decref(all);
}

static void test_mask_before_the_first_token(void **state) {
  const fixture *f = *state;
  need_library();
  uint32_t words[16];
  int64_t allowed;
  cairn_matcher *m = match(f, "regex", "yes|no");
  assert_int_equal(cairn_matcher_mask(m, words, 16, &allowed), CAIRN_OK);
  assert_int_equal(allowed, 2);
  assert_true(is_set(words, 'y') && is_set(words, 'n'));
  assert_int_equal(cairn_matcher_mask(m, words, 2, &allowed), CAIRN_INVALID_ARGUMENT);
  cairn_matcher_destroy(m);
}

// --- cancelling ---------------------------------------------------------------------------------------------------------------------

// Says yes when it is asked for the last time.
typedef struct patience {
  int left, n_asked;
} patience;

static bool is_out_of_patience(const void *user) {
  patience *p = (patience *)user;
  p->n_asked++;
  return p->left-- == 0;
}

// A mask can be given up at every step of its making, and leaves the matcher where it was.
static void test_cancel(void **state) {
  const fixture *f = *state;
  need_library();
  uint32_t whole[16] = {0}, words[16] = {0};
  crn_xg_error error;
  crn_xg_matcher *xg;
  bool accepted;
  cairn_grammar *grammar = compile(f, "ebnf", "root ::= s \"END\"\ns ::= s s | [a-c] | [d-f] | [g-z ]");
  assert_int_equal(crn_xg_matcher_create(grammar->xg, &xg, &error), CRN_XG_OK);
  for (int i = 0; i < 20; i++) assert_true(crn_xg_matcher_accept(xg, 'a' + i, &accepted, &error) == CRN_XG_OK && accepted);
  patience p = {-1, 0};
  const crn_xg_cancel cancel = {is_out_of_patience, &p};
  assert_int_equal(crn_xg_matcher_fill(xg, whole, &cancel, &error), CRN_XG_OK);
  const int n_asked = p.n_asked;
  assert_true(n_asked > 10);
  for (int i = 0; i < n_asked; i++) {
    p = (patience){i, 0};
    assert_int_equal(crn_xg_matcher_fill(xg, words, &cancel, &error), CRN_XG_CANCELLED);
    assert_int_equal(p.n_asked, i + 1);
    if (i % 5) continue;
    assert_int_equal(crn_xg_matcher_fill(xg, words, NULL, &error), CRN_XG_OK);
    assert_memory_equal(words, whole, sizeof words);
  }
  crn_xg_matcher_destroy(xg);
  cairn_grammar_release(grammar);
}

static void test_cancelled_matcher(void **state) {
  const fixture *f = *state;
  need_library();
  uint32_t words[16];
  int64_t allowed;
  cairn_matcher *m = match(f, "regex", "yes|no"), *other;
  assert_true(take(m, 'y'));
  assert_int_equal(cairn_matcher_fork(m, &other), CAIRN_OK);
  cairn_matcher_cancel(m);
  assert_int_equal(cairn_matcher_mask(m, words, 16, NULL), CAIRN_CANCELLED);
  assert_int_equal(cairn_matcher_mask(other, words, 16, &allowed), CAIRN_OK);
  assert_true(allowed == 1 && is_set(words, 'e'));
  assert_int_equal(cairn_matcher_reset(m), CAIRN_OK);
  assert_int_equal(cairn_matcher_mask(m, words, 16, &allowed), CAIRN_OK);
  assert_int_equal(allowed, 2);
  cairn_matcher_destroy(other);
  cairn_matcher_destroy(m);
}

// --- stopping and going back --------------------------------------------------------------------------------------------------------

static void test_stop_ids(void **state) {
  const fixture *f = *state;
  need_library();
  uint32_t words[16];
  int64_t allowed;
  cairn_matcher *m = match(f, "regex", "ab?");
  assert_false(take(m, f->stop));
  assert_true(take(m, 'a'));
  assert_true(cairn_matcher_is_complete(m));
  assert_false(cairn_matcher_is_terminated(m));
  assert_int_equal(cairn_matcher_mask(m, words, 16, &allowed), CAIRN_OK);
  assert_int_equal(allowed, 2);
  assert_true(is_set(words, f->stop) && is_set(words, 'b'));
  assert_true(take(m, f->stop));
  assert_true(cairn_matcher_is_terminated(m));
  assert_int_equal(cairn_matcher_mask(m, words, 16, &allowed), CAIRN_OK);
  assert_int_equal(allowed, 0);
  assert_false(take(m, 'b'));
  assert_int_equal(cairn_matcher_rollback(m, 1), CAIRN_OK);
  assert_false(cairn_matcher_is_terminated(m));
  assert_true(take(m, 'b'));
  cairn_matcher_destroy(m);
}

static void test_rollback(void **state) {
  const fixture *f = *state;
  need_library();
  static const char TEXT[] = "{\"a\":[1,2,{\"b\":null}]}";
  uint32_t masks[sizeof TEXT][16], words[16];
  cairn_matcher *m = match(f, "json", "");
  for (size_t i = 0; TEXT[i]; i++) {
    assert_int_equal(cairn_matcher_mask(m, masks[i], 16, NULL), CAIRN_OK);
    assert_true(take(m, (unsigned char)TEXT[i]));
  }
  assert_true(take(m, f->stop));
  const size_t n = sizeof TEXT;  // with the stop id
  assert_int_equal(cairn_matcher_rollback(m, n + 1), CAIRN_OUT_OF_RANGE);
  for (size_t back = 1; back <= n; back++) {
    cairn_matcher *other;
    assert_int_equal(cairn_matcher_fork(m, &other), CAIRN_OK);
    assert_int_equal(cairn_matcher_rollback(other, back), CAIRN_OK);
    if (back > 1) {
      assert_int_equal(cairn_matcher_mask(other, words, 16, NULL), CAIRN_OK);
      assert_memory_equal(words, masks[n - back], sizeof words);
    }
    cairn_matcher_destroy(other);
  }
  for (int again = 0; again < 3; again++) {
    assert_int_equal(cairn_matcher_reset(m), CAIRN_OK);
    assert_int_equal(cairn_matcher_mask(m, words, 16, NULL), CAIRN_OK);
    assert_memory_equal(words, masks[0], sizeof words);
    assert_int_equal(cairn_matcher_rollback(m, 1), CAIRN_OUT_OF_RANGE);
    assert_int_equal(take_text(m, TEXT), n - 1);
  }
  cairn_matcher_destroy(m);
}

static void test_forced(void **state) {
  const fixture *f = *state;
  need_library();
  char forced[64];
  size_t n;
  cairn_grammar_source source =
      source_of("schema", "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"}},\"required\":[\"name\"]}");
  source.compact = true;
  cairn_grammar *grammar;
  cairn_matcher *m;
  assert_int_equal(cairn_grammar_compile(f->compiler, &source, &grammar), CAIRN_OK);
  assert_int_equal(cairn_matcher_create(grammar, &f->stop, 1, &m), CAIRN_OK);
  cairn_grammar_release(grammar);
  assert_int_equal(cairn_matcher_forced(m, forced, sizeof forced, &n), CAIRN_OK);
  assert_int_equal(n, 9);
  assert_memory_equal(forced, "{\"name\":\"", 9);
  assert_int_equal(take_text(m, "{\"name\":\"x"), 10);
  assert_int_equal(cairn_matcher_forced(m, forced, sizeof forced, &n), CAIRN_OK);
  assert_int_equal(n, 0);
  assert_int_equal(take_text(m, "\""), 1);
  assert_int_equal(cairn_matcher_forced(m, forced, sizeof forced, &n), CAIRN_OK);
  assert_int_equal(n, 1);
  assert_int_equal(forced[0], '}');
  cairn_matcher_destroy(m);
}

// Bytes that are no UTF-8 are never allowed, in whatever tokens they come.
static void test_characters(void **state) {
  const fixture *f = *state;
  need_library();
  static const char *const BROKEN[] = {"\xc0\x80", "\xed\xa0\x80", "\xe0\x80\x80", "\xf4\x90\x80\x80", "\x80", "\xff", "\xc3\x28"};
  static const char *const WHOLE[] = {"\xc2\x80", "\xed\x9f\xbf", "\xe0\xa0\x80", "\xf4\x8f\xbf\xbf", "\xef\xbf\xbf", "\xee\x80\x80"};
  for (size_t i = 0; i < sizeof BROKEN / sizeof *BROKEN; i++) assert_false(takes_whole(f, "regex", "[^a]*", BROKEN[i]));
  for (size_t i = 0; i < sizeof WHOLE / sizeof *WHOLE; i++) assert_true(takes_whole(f, "regex", "[^a]*", WHOLE[i]));
}

// --- keeping ------------------------------------------------------------------------------------------------------------------------

static void test_kept_grammars(void **state) {
  const fixture *f = *state;
  need_library();
  cairn_grammar *a = compile(f, "regex", "kept"), *b = compile(f, "regex", "kept"), *c = compile(f, "ebnf", "root ::= \"kept\"");
  assert_ptr_equal(a, b);
  assert_ptr_not_equal(a, c);
  cairn_grammar_release(b);
  cairn_grammar_release(c);
  for (int i = 0; i < 100; i++) {
    char text[32];
    snprintf(text, sizeof text, "x{%d}", i);
    cairn_grammar_release(compile(f, "regex", text));
  }
  int n;
  assert_true(cairn_grammar_compiler_bytes(f->compiler, &n) > 0);
  assert_true(n <= 32);
  b = compile(f, "regex", "kept");
  assert_ptr_not_equal(a, b);  // it had to go, but who holds it may use it
  cairn_matcher *m;
  assert_int_equal(cairn_matcher_create(a, NULL, 0, &m), CAIRN_OK);
  cairn_grammar_release(a);
  cairn_grammar_release(b);
  assert_int_equal(take_text(m, "kept"), 4);
  cairn_matcher_destroy(m);
}

// --- limits -------------------------------------------------------------------------------------------------------------------------

static cairn_status check(const fixture *f, cairn_grammar_kind kind, const char *text) {
  const cairn_grammar_source source = {.kind = kind, .text = text, .text_bytes = strlen(text)};
  return cairn_grammar_check(f->context, &source);
}

static void test_limits(void **state) {
  const fixture *f = *state;
  const size_t n = 60000;
  char *text = malloc(2 * n + 64);
  assert_non_null(text);
  memset(text, '(', n);
  text[n] = 'a';
  memset(text + n + 1, ')', n);
  text[2 * n + 1] = 0;
  assert_int_equal(check(f, CAIRN_GRAMMAR_REGEX, text), CAIRN_UNSUPPORTED);
  memcpy(text, "root ::= ", 9);
  text[n] = '(';
  assert_int_equal(check(f, CAIRN_GRAMMAR_EBNF, text), CAIRN_UNSUPPORTED);
  size_t at = 0;
  for (size_t i = 0; i < 1000; i++) at += (size_t)sprintf(text + at, "{\"items\":");
  at += (size_t)sprintf(text + at, "true");
  for (size_t i = 0; i < 1000; i++) at += (size_t)sprintf(text + at, "}");
  assert_int_equal(check(f, CAIRN_GRAMMAR_JSON_SCHEMA, text), CAIRN_UNSUPPORTED);
  memset(text, 'a', 2 * n);
  text[2 * n] = 0;
  assert_int_equal(check(f, CAIRN_GRAMMAR_JSON_SCHEMA, text), CAIRN_INVALID_ARGUMENT);
  free(text);
}

// A schema of properties, each a string with a bound of its own: `n` of them, longer by `step` from one to the next.
static char *bounded_strings(int n, int step) {
  char *text = malloc((size_t)n * 64 + 64);
  assert_non_null(text);
  size_t at = (size_t)sprintf(text, "{\"type\":\"object\",\"properties\":{");
  for (int i = 0; i < n; i++)
    at += (size_t)sprintf(text + at, "%s\"p%d\":{\"type\":\"string\",\"maxLength\":%d}", i ? "," : "", i, 100 + step * i);
  sprintf(text + at, "}}");
  return text;
}

// The library's memory is quadratic in what repetitions amount to: equal ones count once, and too many are refused with the numbers.
static void test_memory_of_repetitions(void **state) {
  const fixture *f = *state;
  char *text = bounded_strings(800, 0);
  assert_int_equal(check(f, CAIRN_GRAMMAR_JSON_SCHEMA, text), CAIRN_OK);
  free(text);
  text = bounded_strings(800, 1);
  assert_int_equal(check(f, CAIRN_GRAMMAR_JSON_SCHEMA, text), CAIRN_UNSUPPORTED);
  assert_non_null(strstr(cairn_last_error()->message, "MB, at most 512 are allowed"));
  free(text);
}

static void check_counts(const fixture *f, const char *kind, const char *text, int a, int b, int c, int d) {
  for (int n = 0; n <= 18; n++) {
    bool expected = false;
    char document[32];
    for (int k = c; k <= d; k++) expected |= n >= a * k && n <= b * k;
    memset(document, 'x', (size_t)n);
    strcpy(document + n, "y");
    cairn_matcher *m = match(f, kind, text);
    bool accepted = take_text(m, document) == (size_t)n + 1;
    cairn_matcher_destroy(m);
    if (accepted != expected) fail_msg("%s: %d times", text, n);
  }
}

// (x{a,b}){c,d} takes exactly the numbers of x that k rounds, c <= k <= d, can give; also with the inner one in a rule of its own.
static void test_repetitions_of_repetitions(void **state) {
  const fixture *f = *state;
  need_library();
  for (int i = 0; i < 5 * 5 * 5 * 5; i++) {
    int a = i % 5, b = i / 5 % 5, c = i / 25 % 5, d = i / 125;
    char text[96];
    if (a > b || c > d || !b || !d) continue;
    snprintf(text, sizeof text, "(x{%d,%d}){%d,%d}y", a, b, c, d);
    check_counts(f, "regex", text, a, b, c, d);
    snprintf(text, sizeof text, "root ::= inner{%d,%d} \"y\"\ninner ::= \"x\"{%d,%d}", c, d, a, b);
    check_counts(f, "ebnf", text, a, b, c, d);
  }
}

static void check_pattern(const fixture *f, const char *pattern) {
  char whole[96], schema[160];
  regex_t reference;
  snprintf(whole, sizeof whole, "^(%s)$", pattern);
  snprintf(schema, sizeof schema, "{\"type\":\"string\",\"pattern\":\"^(%s)$\"}", pattern);
  assert_int_equal(regcomp(&reference, whole, REG_EXTENDED | REG_NOSUB), 0);
  for (int n = 0; n <= 5; n++) {
    int count = 1;
    for (int i = 0; i < n; i++) count *= 3;
    for (int number = 0; number < count; number++) {
      char text[8] = {0}, quoted[16];
      for (int i = 0, rest = number; i < n; i++, rest /= 3) text[i] = "abc"[rest % 3];
      snprintf(quoted, sizeof quoted, "\"%s\"", text);
      const bool expected = regexec(&reference, text, 0, NULL, 0) == 0;
      if (takes_whole(f, "regex", pattern, text) != expected) fail_msg("%s: '%s'", pattern, text);
      if (takes_whole(f, "schema", schema, quoted) != expected) fail_msg("%s: %s", schema, quoted);
    }
  }
  regfree(&reference);
}

// Loops within loops over the same characters: the texts are those of another reader of patterns, and long ones do not take ever longer
// (they took minutes).
static void test_loops_in_loops(void **state) {
  static const char *const patterns[] = {
      "(a+b*)+c", "((a|b)*c?)*ab", "(a*(b|(ca){0,2})*)+c", "((a*)*b)*", "(a|b+)*(ab*)*", "((ab|a)(b*))*c{2}",
      // Counted ones: of the rounds of a loop those are left out that others cover.
      "(a{1,2}b?){1,3}c", "((a|b){1,3}c?){2,4}", "(a{0,2}(b{1,2}a?){0,2}){1,3}c", "((a{1,2}b?){1,2}c?){1,2}", "(ab?|a){2,3}(b{1,2}c?)*",
      "((a{2,3}|b){0,2}c{0,2}){1,2}a", "((((a{0,2}b){0,2}c?){0,2}a?){0,2}b?){0,2}"};
  const fixture *f = *state;
  need_library();
  for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) check_pattern(f, patterns[i]);
  enum { LONG = 3000 };
  char *text = malloc(LONG + 2);
  assert_non_null(text);
  for (int i = 0; i < LONG; i++) text[i] = i % 7 ? 'a' : 'b';
  strcpy(text + LONG, "c");
  assert_true(takes_whole(f, "regex", "(.*\\n*)*c", text));
  assert_true(takes_whole(f, "regex", "(.+\\s*)+c", text));
  assert_true(takes_whole(f, "regex", "(a*b*)*c", text));
  assert_true(takes_whole(f, "regex", "(.{1,5}\\s?){1,1000}c", text));
  assert_false(takes_whole(f, "regex", "(.{1,5}\\s?){1,400}c", text));
  assert_true(takes_whole(f, "regex", "(.{1,80}\\n?){1,40}c", text));
  assert_true(takes_whole(f, "ebnf", "root ::= (word \" \"?)+ \"c\"\nword ::= letter{1,9}\nletter ::= [a-z]", text));
  free(text);
}

// Whole numbers between bounds: all of them and no others, around the bounds and the powers of ten.
static void check_integers(const fixture *f, int low, int high) {
  static const int AROUND[] = {0, 1, 9, 10, 11, 19, 20, 99, 100, 101, 109, 110, 199, 999, 1000, 9999, 10000};
  char schema[120], text[32];
  snprintf(schema, sizeof schema, "{\"type\":\"integer\",\"minimum\":%d,\"maximum\":%d}", low, high);
  for (size_t i = 0; i < sizeof AROUND / sizeof *AROUND * 2 + 2; i++) {
    const int near = i < 2 ? (i ? high : low) : i % 2 ? AROUND[i / 2 - 1] : -AROUND[i / 2 - 1];
    for (int n = near - 2; n <= near + 2; n++) {
      snprintf(text, sizeof text, "%d", n);
      if (takes_whole(f, "schema", schema, text) != (n >= low && n <= high)) fail_msg("%s: %s", schema, text);
    }
  }
}

static void test_ranges_of_integers(void **state) {
  static const int BOUNDS[] = {-1000, -99, -10, -1, 0, 1, 5, 10, 19, 20, 99, 100, 123, 199, 1000, 9899, 99999};
  const fixture *f = *state;
  need_library();
  for (size_t a = 0; a < sizeof BOUNDS / sizeof *BOUNDS; a++) {
    for (size_t b = a; b < sizeof BOUNDS / sizeof *BOUNDS; b++) check_integers(f, BOUNDS[a], BOUNDS[b]);
  }
}

// Hundreds of fields with an open range, a pattern or a format: equal ones share what they need, different ones need little.
static void test_many_fields(void **state) {
  static const char *const FIELDS[] = {"{\"type\":\"integer\",\"minimum\":0}",
                                       "{\"type\":\"integer\",\"minimum\":%d}",
                                       "{\"type\":\"number\",\"minimum\":-1.5,\"maximum\":1e6}",
                                       "{\"type\":\"integer\",\"multipleOf\":7}",
                                       "{\"type\":\"string\",\"pattern\":\"^[a-z]+(-[a-z]+)*$\",\"maxLength\":64}",
                                       "{\"type\":\"string\",\"format\":\"uri\",\"maxLength\":200}",
                                       "{\"type\":\"string\",\"format\":\"date-time\",\"pattern\":\"Z$\"}"};
  const fixture *f = *state;
  for (size_t k = 0; k < sizeof FIELDS / sizeof *FIELDS; k++) {
    char *text = malloc(100000);
    assert_non_null(text);
    size_t at = (size_t)sprintf(text, "{\"type\":\"object\",\"properties\":{");
    for (int i = 0; i < 400; i++) {
      at += (size_t)sprintf(text + at, "%s\"f%d\":", i ? "," : "", i);
      at += (size_t)sprintf(text + at, FIELDS[k], i * 1237);
    }
    strcpy(text + at, "}}");
    const cairn_grammar_source source = source_of("schema", text);
    if (cairn_grammar_check(f->context, &source) != CAIRN_OK) fail_msg("%s: %s", FIELDS[k], cairn_last_error()->message);
    free(text);
  }
}

// Rules that name each other so often that following them all would take forever.
static void test_rules_in_rules(void **state) {
  const fixture *f = *state;
  need_library();
  char *text = malloc(200000);
  assert_non_null(text);
  size_t at = (size_t)sprintf(text, "root ::= r0\n");
  for (int i = 0; i < 4000; i++) at += (size_t)sprintf(text + at, "r%d ::= \"a\" | \"b\" r%d r%d\n", i, i + 1, i + 1);
  sprintf(text + at, "r4000 ::= \"b\" (\"c\"+ \"d\"?)+\n");
  assert_true(takes_whole(f, "ebnf", text, "bbaaa"));
  assert_false(takes_whole(f, "ebnf", text, "bb"));
  free(text);
}

// 5,000 rules, each the next one.
static void test_long_chain(void **state) {
  const fixture *f = *state;
  need_library();
  char *text = malloc(200000);
  assert_non_null(text);
  size_t at = (size_t)sprintf(text, "root ::= r0\n");
  for (int i = 0; i < 5000; i++) at += (size_t)sprintf(text + at, "r%d ::= \"a\" r%d\n", i, i + 1);
  sprintf(text + at, "r5000 ::= \"b\"\n");
  cairn_matcher *m = match(f, "ebnf", text);
  assert_int_equal(take_text(m, "aaab"), 3);
  cairn_matcher_destroy(m);
  free(text);
}

// --- memory that fails ----------------------------------------------------------------------------------------------------------------

typedef struct counting {
  long long n_allocations, n_live, fail_at;  // 0 = none fails
} counting;

static void *count_alloc(void *self, size_t bytes, size_t align) {
  counting *c = self;
  if (++c->n_allocations == c->fail_at) return NULL;
  const cairn_allocator *a = crn_default_allocator();
  void *p = a->alloc(a->self, bytes, align);
  c->n_live += p != NULL;
  return p;
}

static void count_free(void *self, void *pointer, size_t bytes) {
  counting *c = self;
  const cairn_allocator *a = crn_default_allocator();
  c->n_live -= pointer != NULL;
  a->free(a->self, pointer, bytes);
}

// Everything that is made for a grammar. Gives the first failure.
static cairn_status use_all(cairn_context *context, cairn_tokenizer *tokenizer, const cairn_grammar_source *source) {
  cairn_grammar_compiler *compiler = NULL;
  cairn_grammar *grammar = NULL;
  cairn_matcher *m = NULL, *other = NULL;
  uint32_t words[16];
  bool accepted;
  cairn_status status = cairn_grammar_compiler_create(context, tokenizer, 0, &compiler);
  if (status == CAIRN_OK) status = cairn_grammar_compile(compiler, source, &grammar);
  if (status == CAIRN_OK) status = cairn_matcher_create(grammar, (const int32_t[]){1, 2}, 2, &m);
  if (status == CAIRN_OK) status = cairn_matcher_mask(m, words, 16, NULL);
  if (status == CAIRN_OK) status = cairn_matcher_accept(m, '{', &accepted);
  if (status == CAIRN_OK) status = cairn_matcher_fork(m, &other);
  cairn_matcher_destroy(other);
  cairn_matcher_destroy(m);
  cairn_grammar_release(grammar);
  cairn_grammar_compiler_release(compiler);
  return status;
}

static void test_failing_memory(void **state) {
  static const cairn_grammar_kind KINDS[] = {CAIRN_GRAMMAR_JSON_SCHEMA, CAIRN_GRAMMAR_EBNF, CAIRN_GRAMMAR_REGEX};
  static const char *const TEXTS[] = {
      "{\"type\":\"object\",\"properties\":{\"a\":{\"pattern\":\"^[a-c]+$\",\"maxLength\":3},\"n\":{\"minimum\":1.5,\"maximum\":7,\"type\":"
      "\"number\"},"
      "\"l\":{\"type\":\"array\",\"items\":{\"enum\":[1,2]},\"uniqueItems\":true}},\"additionalProperties\":{\"oneOf\":[{\"type\":\"null\"}"
      ",{\"const\":3}]}}",
      "root ::= \"{\" [a-z]+ b\nb ::= \"x\" | \"y\"", "\\{((a|bc){1,2}d?)*[^x]\\p{Lu}"};
  (void)state;
  need_library();
  for (size_t k = 0; k < sizeof KINDS / sizeof *KINDS; k++) {
    counting c = {0};
    const cairn_allocator allocator = {&c, count_alloc, count_free};
    cairn_context_options options;
    cairn_context *context;
    cairn_tokenizer *tokenizer;
    const cairn_grammar_source source = {.kind = KINDS[k], .text = TEXTS[k], .text_bytes = strlen(TEXTS[k])};
    cairn_context_options_initialize(&options);
    options.n_threads = 1;
    options.allocator = &allocator;
    assert_int_equal(cairn_context_create(&options, &context), CAIRN_OK);
    assert_int_equal(cairn_tokenizer_open(context, CAIRN_TEST_DATA "/grammar/tokenizer.json", &tokenizer), CAIRN_OK);
    const long long live = c.n_live;
    cairn_status status = CAIRN_OUT_OF_MEMORY;
    long long n = 0;
    for (n = 1; status != CAIRN_OK; n++) {
      c.n_allocations = 0;
      c.fail_at = n;
      status = use_all(context, tokenizer, &source);
      if (status != CAIRN_OK && status != CAIRN_OUT_OF_MEMORY) fail_msg("allocation %lld: %s", n, cairn_last_error()->message);
      assert_int_equal(c.n_live, live);
    }
    assert_true(n > 10);
    c.fail_at = 0;
    cairn_tokenizer_release(tokenizer);
    cairn_context_release(context);
    assert_int_equal(c.n_live, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cases),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_masks_of_schemas),
      cmocka_unit_test(test_masks_of_cases),
      cmocka_unit_test(test_mask_before_the_first_token),
      cmocka_unit_test(test_cancel),
      cmocka_unit_test(test_cancelled_matcher),
      cmocka_unit_test(test_stop_ids),
      cmocka_unit_test(test_rollback),
      cmocka_unit_test(test_forced),
      cmocka_unit_test(test_characters),
      cmocka_unit_test(test_kept_grammars),
      cmocka_unit_test(test_limits),
      cmocka_unit_test(test_memory_of_repetitions),
      cmocka_unit_test(test_repetitions_of_repetitions),
      cmocka_unit_test(test_loops_in_loops),
      cmocka_unit_test(test_ranges_of_integers),
      cmocka_unit_test(test_many_fields),
      cmocka_unit_test(test_rules_in_rules),
      cmocka_unit_test(test_long_chain),
      cmocka_unit_test(test_failing_memory),
  };
  return cmocka_run_group_tests_name("grammars", tests, setup, teardown);
}
