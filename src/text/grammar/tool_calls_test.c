// Tool calls by random walks: in every format, for schemas of every kind, what is generated is read back by the parser of dialogues as
// calls whose arguments satisfy the schema.
#include "text/tokenizer/test_support.h"

#include "cairn/grammar.h"

enum { WORDS = 16, MOST_STEPS = 6000, MOST_BYTES = 1 << 16 };

typedef struct fixture {
  cairn_context *context;
  cairn_tokenizer *tokenizer;
  cairn_grammar_compiler *compiler;
  int32_t stop;
  FILE *out;  // "format<tab>tools<tab>name<tab>arguments" of all calls, for validators outside; NULL = nobody asks
} fixture;

static int setup(void **state) {
  static fixture f;
  f.context = test_context();
  assert_int_equal(cairn_tokenizer_open(f.context, CAIRN_TEST_DATA "/grammar/tokenizer.json", &f.tokenizer), CAIRN_OK);
  f.stop = cairn_tokenizer_id(f.tokenizer, "<eos>");
  if (cairn_grammar_is_available()) assert_int_equal(cairn_grammar_compiler_create(f.context, f.tokenizer, 0, &f.compiler), CAIRN_OK);
  if (getenv("CAIRN_TOOL_CALLS_OUT")) f.out = fopen(getenv("CAIRN_TOOL_CALLS_OUT"), "w");
  *state = &f;
  return 0;
}

static int teardown(void **state) {
  fixture *f = *state;
  if (f->out) fclose(f->out);
  cairn_grammar_compiler_release(f->compiler);
  cairn_tokenizer_release(f->tokenizer);
  cairn_context_release(f->context);
  return 0;
}

static void need_library(void) {
  if (!cairn_grammar_is_available()) skip();
}

static uint64_t next_random(uint64_t *s) {
  *s ^= *s << 13;
  *s ^= *s >> 7;
  return *s ^= *s << 17;
}

// --- a reply ------------------------------------------------------------------------------------------------------------------------

typedef struct reply {
  char text[MOST_BYTES];
  size_t n;
  bool is_ended;
} reply;

static cairn_matcher *match(const fixture *f, const cairn_dialogue_options *o, const char *choice) {
  const cairn_grammar_source source = {.kind = CAIRN_GRAMMAR_TOOL_CALLS, .dialogue = o, .tool_choice = choice};
  cairn_grammar *grammar;
  cairn_matcher *m;
  if (cairn_grammar_compile(f->compiler, &source, &grammar) != CAIRN_OK)
    fail_msg("%s, %s: %s", cairn_dialogue_format_text(o->format), o->tools, cairn_last_error()->message);
  assert_int_equal(cairn_matcher_create(grammar, &f->stop, 1, &m), CAIRN_OK);
  cairn_grammar_release(grammar);
  return m;
}

static bool is_set(const uint32_t *words, int32_t id) { return words[id / 32] >> id % 32 & 1; }

// The byte that goes on with an end tag that the reply ends in the middle of, or 0.
static unsigned char next_of_tag(const reply *r) {
  const char *tag = memmem(r->text, r->n, "<atem:", 6) ? "</atem:parameter>" : "</parameter>";
  for (size_t n = strlen(tag) - 1; n > 0; n--) {
    if (r->n >= n && !memcmp(r->text + r->n - n, tag, n)) return (unsigned char)tag[n];
  }
  return 0;
}

// At first anything; when it gets long, what tends to close things.
static int32_t choose(const fixture *f, const reply *r, const uint32_t *words, int64_t allowed, int step, uint64_t *seed) {
  static const char kClosing[] = "\"]})<>`0e,\n";
  if (is_set(words, f->stop)) return f->stop;
  const unsigned char tag = step > 150 ? next_of_tag(r) : 0;
  if (tag && is_set(words, tag)) return tag;
  // What closes a text in one format is a part of it in another.
  const size_t n = sizeof kClosing - 1, first = step > 150 ? (size_t)(next_random(seed) % n) : 0;
  for (size_t i = 0; step > 150 && i < n && next_random(seed) % 8; i++) {
    const unsigned char closing = (unsigned char)kClosing[(first + i) % n];
    if (is_set(words, closing)) return closing;
  }
  int64_t which = (int64_t)(next_random(seed) % (uint64_t)allowed);
  for (int32_t id = 0;; id++) {
    if (is_set(words, id) && which-- == 0) return id;
  }
}

static void put(const fixture *f, reply *r, int32_t id) {
  size_t n;
  assert_int_equal(cairn_tokenizer_token_bytes(f->tokenizer, id, r->text + r->n, sizeof r->text - r->n, &n), CAIRN_OK);
  r->n += n;
}

static void go_on(const fixture *f, cairn_matcher *m, reply *r, uint64_t *seed) {
  for (int step = 0; step < MOST_STEPS && !r->is_ended && r->n + 64 < sizeof r->text; step++) {
    uint32_t words[WORDS];
    int64_t allowed;
    bool accepted;
    assert_int_equal(cairn_matcher_mask(m, words, WORDS, &allowed), CAIRN_OK);
    if (!allowed) fail_msg("nothing may follow '%.*s'", (int)r->n, r->text);
    const int32_t id = choose(f, r, words, allowed, step, seed);
    assert_int_equal(cairn_matcher_accept(m, id, &accepted), CAIRN_OK);
    if (!accepted) fail_msg("token %d is in the mask behind '%.*s', but is not taken", id, (int)r->n, r->text);
    r->is_ended = id == f->stop;
    if (!r->is_ended) put(f, r, id);
  }
}

// --- reading it back ----------------------------------------------------------------------------------------------------------------

static bool satisfies(const fixture *f, const char *schema, const char *text, size_t n) {
  const cairn_grammar_source source = {.kind = CAIRN_GRAMMAR_JSON_SCHEMA, .text = schema, .text_bytes = strlen(schema)};
  cairn_grammar *grammar;
  cairn_matcher *m;
  bool accepted = true;
  assert_int_equal(cairn_grammar_compile(f->compiler, &source, &grammar), CAIRN_OK);
  assert_int_equal(cairn_matcher_create(grammar, NULL, 0, &m), CAIRN_OK);
  for (size_t i = 0; i < n && accepted; i++) assert_int_equal(cairn_matcher_accept(m, (unsigned char)text[i], &accepted), CAIRN_OK);
  accepted = accepted && cairn_matcher_is_complete(m);
  cairn_matcher_destroy(m);
  cairn_grammar_release(grammar);
  return accepted;
}

static int check_calls(const fixture *f, const cairn_dialogue_options *o, const char *schema, const reply *r, int n_least) {
  cairn_dialogue *d;
  cairn_dialogue_result got;
  assert_int_equal(cairn_dialogue_create(f->context, o, &d), CAIRN_OK);
  assert_int_equal(cairn_dialogue_push(d, r->text, r->n), CAIRN_OK);
  assert_int_equal(cairn_dialogue_finish(d), CAIRN_OK);
  cairn_dialogue_get(d, &got);
  const char *name = cairn_dialogue_format_text(o->format);
  if (got.n_malformed || got.n_calls < n_least)
    fail_msg("%s: %d calls, %d malformed: %.*s", name, got.n_calls, got.n_malformed, (int)r->n, r->text);
  for (int i = 0; i < got.n_calls; i++) {
    const cairn_dialogue_call *c = &got.calls[i];
    if (f->out) fprintf(f->out, "%s\t%s\t%s\t%s\n", name, schema, c->name, c->arguments);
    if (strcmp(c->name, "get_it") && strcmp(c->name, "other")) fail_msg("%s: tool '%s': %.*s", name, c->name, (int)r->n, r->text);
    if (!strcmp(c->name, "other")) {
      assert_string_equal(c->arguments, "{}");
    } else if (!satisfies(f, schema, c->arguments, c->arguments_bytes)) {
      fail_msg("%s: %s does not satisfy %s: %.*s", name, c->arguments, schema, (int)r->n, r->text);
    }
  }
  const int n = got.n_calls;
  cairn_dialogue_destroy(d);
  return n;
}

// --- schemas --------------------------------------------------------------------------------------------------------------------------

static bool has_reference(const char *schema) { return strstr(schema, "\"$ref\"") || strstr(schema, "$id") || strstr(schema, "$anchor"); }

// Schemas of objects as they are, others as that of a parameter.
static json_t *parameters_of(json_t *schema) {
  char *text = json_dumps(schema, JSON_ENCODE_ANY);
  const char *type = json_string_value(json_object_get(schema, "type"));
  json_t *out = NULL;
  if (type && !strcmp(type, "object")) {
    out = json_incref(schema);
  } else if (!has_reference(text)) {
    out = json_pack("{s:s,s:{s:O},s:[s]}", "type", "object", "properties", "v", schema, "required", "v");
  }
  free(text);
  return out;
}

static bool members_are_free(cairn_dialogue_format format) {
  return format == CAIRN_DIALOGUE_QWEN_CODER || format == CAIRN_DIALOGUE_AGENTIC || format == CAIRN_DIALOGUE_GEMMA;
}

static void test_required(void **state) {
  const fixture *f = *state;
  static reply r;
  need_library();
  json_t *all = test_json_file(CAIRN_TEST_DATA "/grammar/schemas.json"), *schema;
  const char *name;
  uint64_t seed = 88172645463325252u;
  int n_calls = 0, n_replies = 0, n_refused = 0, n_unfinished = 0;
  json_object_foreach(all, name, schema) {
    json_t *parameters = parameters_of(schema);
    if (!parameters) continue;
    json_t *tools =
        json_pack("[{s:s,s:{s:s,s:O}},{s:s}]", "type", "function", "function", "name", "get_it", "parameters", parameters, "name", "other");
    char *text = json_dumps(tools, JSON_COMPACT), *own = json_dumps(parameters, JSON_COMPACT);
    for (int format = CAIRN_DIALOGUE_GENERIC; format <= CAIRN_DIALOGUE_AGENTIC; format++) {
      const cairn_dialogue_options o = {.format = (cairn_dialogue_format)format, .tools = text, .tools_bytes = strlen(text)};
      const cairn_grammar_source source = {.kind = CAIRN_GRAMMAR_TOOL_CALLS, .dialogue = &o, .tool_choice = "get_it"};
      const cairn_status status = cairn_grammar_check(f->context, &source);
      // Where parameters are written one by one some schemas cannot be kept.
      if (status == CAIRN_UNSUPPORTED && members_are_free(o.format)) {
        n_refused++;
        continue;
      }
      if (status != CAIRN_OK) fail_msg("%s, %s: %s", cairn_dialogue_format_text(o.format), name, cairn_last_error()->message);
      cairn_matcher *m = match(f, &o, "get_it");
      r.n = 0;
      r.is_ended = false;
      go_on(f, m, &r, &seed);
      cairn_matcher_destroy(m);
      n_unfinished += !r.is_ended;
      if (r.is_ended) n_calls += check_calls(f, &o, own, &r, 1);
      n_replies++;
    }
    free(text);
    free(own);
    json_decref(tools);
    json_decref(parameters);
  }
  print_message("%d replies, %d calls, %d unfinished, %d refused\n", n_replies, n_calls, n_unfinished, n_refused);
  assert_true(n_calls >= 400);
  assert_true(n_unfinished * 10 < n_replies);
  json_decref(all);
}

// --- calls that the model begins --------------------------------------------------------------------------------------------------------

static const struct {
  cairn_dialogue_format format;
  const char *text;  ///< that begins a call
  bool is_marker;
} g_begun[] = {{CAIRN_DIALOGUE_GENERIC, "Well. <tool_call>", true},
               {CAIRN_DIALOGUE_GENERIC, "<function_calls>", true},
               {CAIRN_DIALOGUE_GENERIC, "[TOOL_CALLS]", true},
               {CAIRN_DIALOGUE_HERMES, "<think>no <tool_call> here</think>Now: <tool_call>", true},
               {CAIRN_DIALOGUE_QWEN_CODER, "<tool_call>", true},
               {CAIRN_DIALOGUE_QWEN_CODER, "I call <function=", true},
               {CAIRN_DIALOGUE_LLAMA3, "<|python_tag|>", true},
               {CAIRN_DIALOGUE_LLAMA3, "{\"name\": \"get_it\"", false},
               {CAIRN_DIALOGUE_LLAMA3, "<function=", true},
               {CAIRN_DIALOGUE_LLAMA3, "[get_it(", false},
               {CAIRN_DIALOGUE_MISTRAL, "[TOOL_CALLS]", true},
               {CAIRN_DIALOGUE_GEMMA, "So:\n```tool_code", true},
               {CAIRN_DIALOGUE_FUNCTIONGEMMA, "<start_function_call>", true},
               {CAIRN_DIALOGUE_GEMMA4, "<|tool_call>", true},
               {CAIRN_DIALOGUE_DEEPSEEK, "a<｜tool▁calls▁begin｜>", true},
               {CAIRN_DIALOGUE_DEEPSEEK, "<｜tool▁call▁begin｜>", true},
               {CAIRN_DIALOGUE_HARMONY,
                "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary to=functions.get_it<|message|>", false},
               {CAIRN_DIALOGUE_AGENTIC, " to=get_it<|message|><atem:function_calls>", true}};

#define SCHEMA                                                                                                                             \
  "{\"type\":\"object\",\"properties\":{\"place\":{\"type\":\"string\",\"pattern\":\"^[A-Z][a-z]{1,8}$\"},\"days\":{\"type\":\"integer\"," \
  "\"minimum\":1,\"maximum\":14},\"units\":{\"enum\":[\"C\",\"F\"]},\"note\":{\"type\":\"string\"}},\"required\":[\"place\",\"days\"]}"
#define TOOLS "[{\"type\":\"function\",\"function\":{\"name\":\"get_it\",\"parameters\":" SCHEMA "}},{\"name\":\"other\"}]"

// Takes the bytes of a text as tokens; all but the last `left` of them.
static void take_text(const fixture *f, cairn_matcher *m, reply *r, const char *text, size_t left) {
  const size_t n = strlen(text) - left;
  for (size_t i = 0; i < n; i++) {
    bool accepted;
    assert_int_equal(cairn_matcher_accept(m, (unsigned char)text[i], &accepted), CAIRN_OK);
    if (!accepted) fail_msg("byte %zu of '%s' is not taken", i, text);
    put(f, r, (unsigned char)text[i]);
  }
}

static void test_auto(void **state) {
  const fixture *f = *state;
  static reply r;
  uint64_t seed = 362436069362436069u;
  need_library();
  for (size_t i = 0; i < sizeof g_begun / sizeof *g_begun; i++) {
    const cairn_dialogue_options o = {.format = g_begun[i].format, .tools = TOOLS, .tools_bytes = strlen(TOOLS)};
    for (int k = 0; k < 12; k++) {
      cairn_matcher *m = match(f, &o, NULL), *other;
      r = (reply){.n = 0};
      assert_true(cairn_matcher_is_complete(m));
      take_text(f, m, &r, g_begun[i].text, 0);
      assert_false(cairn_matcher_is_complete(m));
      if (k % 2) {
        // A fork, and the way back to where the call began.
        const size_t n = r.n;
        assert_int_equal(cairn_matcher_fork(m, &other), CAIRN_OK);
        cairn_matcher_destroy(m);
        m = other;
        assert_int_equal(cairn_matcher_rollback(m, 3), CAIRN_OK);
        r.n -= 3;
        take_text(f, m, &r, g_begun[i].text + n - 3, 0);
      }
      go_on(f, m, &r, &seed);
      cairn_matcher_destroy(m);
      if (!r.is_ended)
        fail_msg("'%s', %d: the reply goes on: %.*s", g_begun[i].text, k, (int)(r.n < 1500 ? r.n : 1500),
                 r.text + (r.n < 1500 ? 0 : r.n - 1500));
      check_calls(f, &o, SCHEMA, &r, 1);
    }
  }
}

static void test_none(void **state) {
  const fixture *f = *state;
  static reply r;
  need_library();
  for (size_t i = 0; i < sizeof g_begun / sizeof *g_begun; i++) {
    const cairn_dialogue_options o = {.format = g_begun[i].format, .tools = TOOLS, .tools_bytes = strlen(TOOLS)};
    cairn_matcher *m = match(f, &o, "none");
    uint32_t words[WORDS];
    if (g_begun[i].is_marker) {
      r = (reply){.n = 0};
      take_text(f, m, &r, g_begun[i].text, 1);
      assert_int_equal(cairn_matcher_mask(m, words, WORDS, NULL), CAIRN_OK);
      const unsigned char last = (unsigned char)g_begun[i].text[strlen(g_begun[i].text) - 1];
      if (is_set(words, last)) fail_msg("'%s' can be completed", g_begun[i].text);
      assert_true(is_set(words, f->stop));
    }
    cairn_matcher_destroy(m);
  }
}

// --- names ----------------------------------------------------------------------------------------------------------------------------

static cairn_status check(const fixture *f, cairn_dialogue_format format, const char *tools, const char *choice, char *text, size_t bytes) {
  const cairn_dialogue_options o = {.format = format, .tools = tools, .tools_bytes = strlen(tools)};
  const cairn_grammar_source source = {.kind = CAIRN_GRAMMAR_TOOL_CALLS, .dialogue = &o, .tool_choice = choice};
  const cairn_status status = cairn_grammar_check(f->context, &source);
  *text = 0;
  if (status != CAIRN_OK) cairn_last_error_text(text, bytes);
  return status;
}

// A name is refused, with the tool's place, or what is generated is read back as calls of that name. Whether it was taken.
static bool try_name(const fixture *f, cairn_dialogue_format format, const char *name, uint64_t *seed) {
  static reply r;
  json_t *tools = json_pack("[{s:s},{s:{s:s,s:{s:s,s:{s:{s:s}}}}}]", "name", "f", "function", "name", name, "parameters", "type", "object",
                            "properties", "n", "type", "integer");
  char *text = json_dumps(tools, JSON_COMPACT), message[512];
  const char *form = cairn_dialogue_format_text(format);
  const cairn_dialogue_options o = {.format = format, .tools = text, .tools_bytes = strlen(text)};
  cairn_dialogue *d;
  cairn_dialogue_result got;
  const bool is_taken = check(f, format, text, "required", message, sizeof message) == CAIRN_OK;
  if (!is_taken && (!strstr(message, "tools[1]: the name '") || !strstr(message, "expected"))) fail_msg("%s, %s: %s", form, name, message);
  if (is_taken) {
    cairn_matcher *m = match(f, &o, name);
    r = (reply){.n = 0};
    go_on(f, m, &r, seed);
    cairn_matcher_destroy(m);
    assert_int_equal(cairn_dialogue_create(f->context, &o, &d), CAIRN_OK);
    assert_int_equal(cairn_dialogue_push(d, r.text, r.n), CAIRN_OK);
    assert_int_equal(cairn_dialogue_finish(d), CAIRN_OK);
    cairn_dialogue_get(d, &got);
    if (!r.is_ended || got.n_malformed || got.n_calls != 1 || strcmp(got.calls[0].name, name))
      fail_msg("%s: '%s' is read as '%s' from %.*s", form, name, got.n_calls ? got.calls[0].name : "", (int)r.n, r.text);
    cairn_dialogue_destroy(d);
  }
  free(text);
  json_decref(tools);
  return is_taken;
}

static void test_names(void **state) {
  static const char *const OTHERS[] = {"\xc3\xa9",      "\xe6\x97\xa5g", "true",      "name",      "print", "functions.g",
                                       "default_api.g", "user",          "self",      "assistant", "all",   "analysis",
                                       "g.call",        "a b",           "\xc2\xa0g", "a\nb",      "\x7f"};
  const fixture *f = *state;
  uint64_t seed = 88172645463325252u;
  int n_taken = 0;
  char text[512], name[512];
  need_library();
  for (int format = CAIRN_DIALOGUE_GENERIC; format <= CAIRN_DIALOGUE_AGENTIC; format++) {
    for (int c = 33; c < 127; c++) {
      const char names[3][4] = {{'g', (char)c, 'e'}, {(char)c, 'g'}, {'g', (char)c}};
      for (int i = 0; i < 3; i++) n_taken += try_name(f, (cairn_dialogue_format)format, names[i], &seed);
    }
    for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++) n_taken += try_name(f, (cairn_dialogue_format)format, OTHERS[i], &seed);
    memset(name, 'n', 201);
    name[201] = 0;
    assert_false(try_name(f, (cairn_dialogue_format)format, name, &seed));
    name[200] = 0;
    assert_true(try_name(f, (cairn_dialogue_format)format, name, &seed));
    assert_true(try_name(f, (cairn_dialogue_format)format, "get_weather2", &seed));
    assert_int_equal(check(f, (cairn_dialogue_format)format, "[{\"name\":\"f\"},3]", NULL, text, sizeof text), CAIRN_INVALID_ARGUMENT);
    assert_non_null(strstr(text, "tools[1]: expected an object"));
    assert_int_equal(check(f, (cairn_dialogue_format)format, "[{\"name\":\"f\"},{\"function\":{\"name\":\"f\"}}]", NULL, text, sizeof text),
                     CAIRN_INVALID_ARGUMENT);
    assert_non_null(strstr(text, "tools[1]: a second tool 'f'"));
  }
  assert_true(n_taken > 2000);
}

// --- what is refused --------------------------------------------------------------------------------------------------------------------

// Parameters of a tool, and the place in them that the message names, or another part of the message.
static const struct {
  const char *parameters, *place;
} g_refused[] = {
    {"false", "#: no value can ever"},
    {"3", "#: expected a schema"},
    {"[]", "#: expected a schema"},
    {"{\"type\":\"string\"}", "#: no value can ever"},
    {"{\"properties\":{\"a\":{\"type\":\"array\",\"items\":{\"uniqueItems\":\"x\"}}}}", "#/properties/a/items/uniqueItems: expected true"},
    {"{\"properties\":{\"a\":{\"type\":\"strnig\"}}}", "#/properties/a/type: expected null"},
    {"{\"properties\":[]}", "#/properties: expected an object of schemas"},
    {"{\"required\":\"a\"}", "#/required: expected a list of names"},
    {"{\"properties\":{\"a\":{\"type\":\"integer\",\"minimum\":5,\"maximum\":4}},\"required\":[\"a\"]}",
     "#/properties/a: no value can ever"},
    {"{\"properties\":{\"b\":{},\"a\":{\"type\":\"array\",\"minItems\":1,\"items\":{\"enum\":[3],\"type\":\"string\"}}},\"required\":["
     "\"a\"]}",
     "#/properties/a/items: no value can ever"},
    {"{\"properties\":{\"a\":{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"object\",\"properties\":{\"m\":{\"type\":\"string\","
     "\"minLength\":3,"
     "\"maxLength\":2}},\"required\":[\"m\"]}},\"required\":[\"n\"]}},\"required\":[\"a\"]}",
     "#/properties/a/properties/n/properties/m: no value can ever"},
    {"{\"properties\":{\"a\":{\"anyOf\":[{\"const\":1,\"type\":\"string\"},{\"const\":2,\"type\":\"string\"}]}},\"required\":[\"a\"]}",
     "#/properties/a: no value can ever"},
};

static void test_refused_parameters(void **state) {
  const fixture *f = *state;
  for (size_t i = 0; i < sizeof g_refused / sizeof *g_refused; i++) {
    char tools[1024], text[512];
    snprintf(tools, sizeof tools, "[{\"name\":\"fine\"},{\"type\":\"function\",\"function\":{\"name\":\"odd\",\"parameters\":%s}}]",
             g_refused[i].parameters);
    for (int format = CAIRN_DIALOGUE_GENERIC; format <= CAIRN_DIALOGUE_AGENTIC; format++) {
      const char *form = cairn_dialogue_format_text((cairn_dialogue_format)format);
      if (check(f, (cairn_dialogue_format)format, tools, "auto", text, sizeof text) != CAIRN_INVALID_ARGUMENT)
        fail_msg("%s takes %s: %s", form, tools, text);
      if (!strstr(text, "tool 'odd'") || !strstr(text, g_refused[i].place)) fail_msg("%s, %s: %s", form, tools, text);
      // Who asks for another tool by its name gets it.
      if (check(f, (cairn_dialogue_format)format, tools, "fine", text, sizeof text) != CAIRN_OK) fail_msg("%s: %s", form, text);
    }
  }
}

static void test_refused(void **state) {
  const fixture *f = *state;
  cairn_dialogue_options o = {.format = CAIRN_DIALOGUE_HERMES, .tools = TOOLS, .tools_bytes = strlen(TOOLS)};
  cairn_grammar_source source = {.kind = CAIRN_GRAMMAR_TOOL_CALLS, .dialogue = &o, .tool_choice = "nobody"};
  assert_int_equal(cairn_grammar_check(f->context, &source), CAIRN_INVALID_ARGUMENT);
  assert_non_null(strstr(cairn_last_error()->message, "'nobody' is none of auto, required, none, and no tool has that name"));
  source.tool_choice = NULL;
  o.format = CAIRN_DIALOGUE_NONE;
  assert_int_equal(cairn_grammar_check(f->context, &source), CAIRN_UNSUPPORTED);
  o.format = CAIRN_DIALOGUE_HERMES;
  o.tools = "[{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"array\",\"uniqueItems\":true}}}}]";
  o.tools_bytes = strlen(o.tools);
  assert_int_equal(cairn_grammar_check(f->context, &source), CAIRN_UNSUPPORTED);
  char text[512];
  cairn_last_error_text(text, sizeof text);
  assert_non_null(strstr(text, "tool 'f'"));
  assert_non_null(strstr(text, "uniqueItems"));
  o.tools = "[]";
  o.tools_bytes = 2;
  assert_int_equal(cairn_grammar_check(f->context, &source), CAIRN_INVALID_ARGUMENT);
  source.dialogue = NULL;
  assert_int_equal(cairn_grammar_check(f->context, &source), CAIRN_INVALID_ARGUMENT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_refused), cmocka_unit_test(test_refused_parameters), cmocka_unit_test(test_names), cmocka_unit_test(test_none),
      cmocka_unit_test(test_auto),    cmocka_unit_test(test_required),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
