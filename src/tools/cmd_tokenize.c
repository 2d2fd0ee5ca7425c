// cairn tokenize: text to ids and back.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "tools/commands.h"
#include "tools/json_writer.h"
#include "tools/source.h"
#include "tools/text_source.h"

typedef struct tokenize_options {
  bool decode, json, json_lines, no_special, skip_special, show, offsets;
  const char *file;
} tokenize_options;

#define GROUP_WHAT "What to do"
#define GROUP_FORM "Form"
#define AT(member) offsetof(tokenize_options, member)

static const crn_tool_option g_options[] = {
    {.name = "decode",
     .letter = 'd',
     .kind = OPTION_FLAG,
     .offset = AT(decode),
     .group = GROUP_WHAT,
     .help = "ids to text instead of text to ids"},
    {.name = "file",
     .letter = 'f',
     .kind = OPTION_TEXT,
     .offset = AT(file),
     .argument = "FILE",
     .group = GROUP_WHAT,
     .help = "take the input from FILE instead of the arguments or stdin"},
    {.name = "no-special-tokens",
     .kind = OPTION_FLAG,
     .offset = AT(no_special),
     .group = GROUP_WHAT,
     .help = "do not add the tokens the tokenizer puts around a text"},
    {.name = "skip-special-tokens",
     .kind = OPTION_FLAG,
     .offset = AT(skip_special),
     .group = GROUP_WHAT,
     .help = "with --decode: leave special tokens out of the text"},
    {.name = "show",
     .kind = OPTION_FLAG,
     .offset = AT(show),
     .group = GROUP_FORM,
     .help = "a line per token: its id, and how the vocabulary spells it"},
    {.name = "offsets",
     .kind = OPTION_FLAG,
     .offset = AT(offsets),
     .group = GROUP_FORM,
     .help = "with each token the bytes of the text it stands for, as BEGIN-END"},
    {.name = "json", .kind = OPTION_FLAG, .offset = AT(json), .group = GROUP_FORM, .help = "one JSON document"},
    {.name = "json-lines",
     .kind = OPTION_FLAG,
     .offset = AT(json_lines),
     .group = GROUP_FORM,
     .help = "a JSON object per line: in {\"text\",\"add_special_tokens\":true}, out {\"ids\"}; with --decode in "
             "{\"ids\",\"skip_special_tokens\":false}, out {\"text\"}"},
};

static const tokenize_options g_defaults;

// The tokens of a text.
typedef struct tokens {
  int32_t *ids;
  cairn_token_span *spans;  // NULL = not asked for
  size_t n;
} tokens;

static cairn_status encode(const cairn_tokenizer *tokenizer, const char *text, size_t bytes, bool special, bool offsets, crn_arena *arena,
                           tokens *out) {
  if (!offsets) return crn_tool_encode(tokenizer, text, bytes, special, arena, &out->ids, &out->n);
  CRN_TRY(crn_tool_encode_offsets(tokenizer, text, bytes, special, arena, &out->spans, &out->n));
  CRN_TRY(crn_arena_array(arena, out->n, sizeof *out->ids, &out->ids));
  for (size_t i = 0; i < out->n; i++) out->ids[i] = out->spans[i].id;
  return CAIRN_OK;
}

// --- one object per line --------------------------------------------------------------------------------------------------

static void write_offsets(crn_json_writer *w, const cairn_token_span *spans, size_t n) {
  crn_jw_key(w, "offsets");
  crn_jw_open_array(w, true);
  for (size_t i = 0; spans && i < n; i++) {
    crn_jw_open_array(w, true);
    crn_jw_integer(w, (int64_t)spans[i].begin);
    crn_jw_integer(w, (int64_t)spans[i].end);
    crn_jw_close_array(w);
  }
  crn_jw_close_array(w);
}

static cairn_status encode_line(const cairn_tokenizer *tokenizer, bool offsets, const json_t *in, const char *what, crn_arena *arena,
                                crn_json_writer *w) {
  const json_t *text = json_object_get(in, "text");
  bool special = true;
  tokens t = {0};
  if (!json_is_string(text)) return CRN_FAIL(CORRUPT, "%s: an object with a member 'text' is expected", what);
  CRN_TRY(crn_json_bool(in, what, "add_special_tokens", false, &special));
  CRN_TRY(encode(tokenizer, json_string_value(text), json_string_length(text), special, offsets, arena, &t));
  crn_jw_key(w, "ids");
  crn_jw_open_array(w, true);
  for (size_t i = 0; i < t.n; i++) crn_jw_integer(w, t.ids[i]);
  crn_jw_close_array(w);
  if (offsets) write_offsets(w, t.spans, t.n);
  return w->status;
}

static cairn_status decode_line(const cairn_tokenizer *tokenizer, const json_t *in, const char *what, crn_arena *arena,
                                crn_json_writer *w) {
  bool skip = false;
  int32_t *ids = NULL;
  size_t n = 0, bytes = 0;
  char *text = NULL;
  const json_t *array = json_object_get(in, "ids");
  if (!array) return CRN_FAIL(CORRUPT, "%s: an object with a member 'ids' is expected", what);
  CRN_TRY_NOTE(crn_tool_ids(array, "ids", arena, &ids, &n), "%s", what);
  CRN_TRY(crn_json_bool(in, what, "skip_special_tokens", false, &skip));
  CRN_TRY(crn_tool_decode(tokenizer, ids, n, skip, arena, &text, &bytes));
  crn_jw_key(w, "text");
  crn_jw_text_n(w, text, bytes);
  return w->status;
}

static cairn_status convert_line(const cairn_tokenizer *tokenizer, const tokenize_options *o, const char *line, size_t bytes,
                                 int64_t number) {
  char what[32];
  json_t *in = NULL;
  crn_arena arena;
  crn_json_writer w;
  snprintf(what, sizeof what, "line %lld", (long long)number);
  crn_arena_initialize(&arena, NULL);
  crn_jw_initialize(&w, false);
  crn_jw_open_object(&w);
  cairn_status status;
  CRN_TRY_GOTO(crn_tool_parse_json(line, bytes, what, &in));
  CRN_TRY_GOTO(o->decode ? decode_line(tokenizer, in, what, &arena, &w) : encode_line(tokenizer, o->offsets, in, what, &arena, &w));
  crn_jw_close_object(&w);
  CRN_TRY_GOTO(crn_jw_print(&w, stdout));
  // Whoever feeds lines through a pipe waits for each answer.
  fflush(stdout);
done:
  json_decref(in);
  crn_jw_deinitialize(&w);
  crn_arena_deinitialize(&arena);
  return status;
}

static bool is_blank(const char *line, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (!strchr(" \t\r\n", line[i])) return false;
  return true;
}

static cairn_status convert_lines(const cairn_tokenizer *tokenizer, const tokenize_options *o) {
  FILE *in = o->file ? fopen(o->file, "rb") : stdin;
  if (!in) return CRN_FAIL(NOT_FOUND, "cannot open '%s'", o->file);
  char *line = NULL;
  size_t capacity = 0;
  ssize_t n;
  cairn_status status = CAIRN_OK;
  for (int64_t number = 1; status == CAIRN_OK && (n = getline(&line, &capacity, in)) >= 0; number++)
    if (!is_blank(line, (size_t)n)) status = convert_line(tokenizer, o, line, (size_t)n, number);
  free(line);
  if (status == CAIRN_OK && ferror(in)) status = CRN_FAIL(IO, "cannot read the input");
  if (o->file) fclose(in);
  return status;
}

// --- one text ---------------------------------------------------------------------------------------------------------

// The arguments after PATH joined by spaces, else a file, else stdin.
static cairn_status read_input(const crn_tool *t, const tokenize_options *o, crn_str *out) {
  if (t->n_positionals == 1) return crn_tool_read(o->file, out);
  for (int i = 1; i < t->n_positionals; i++) {
    if (i > 1) CRN_TRY(crn_str_putc(out, ' '));
    CRN_TRY(crn_str_puts(out, t->positionals[i]));
  }
  return CAIRN_OK;
}

static const char g_id_separators[] = " \t\r\n,;[]";

// One id of `n` bytes; false when the text is none. Ids are 0 or more.
static bool parse_id(const char *text, size_t n, int32_t *out) {
  char number[16];
  int64_t id;
  if (n >= sizeof number) return false;
  memcpy(number, text, n);
  number[n] = 0;
  if (!crn_tool_parse_integer(number, &id) || id < 0 || id > INT32_MAX) return false;
  *out = (int32_t)id;
  return true;
}

// The first word of `text` that is no id, with its length; NULL when all are. Ids (as many as `text` has words) go to `out`
// unless that is NULL.
static const char *parse_ids(const char *text, int32_t *out, size_t *out_n, size_t *out_bytes) {
  *out_n = 0;
  for (const char *p = text + strspn(text, g_id_separators); *p; p += strspn(p, g_id_separators)) {
    int32_t id;
    *out_bytes = strcspn(p, g_id_separators);
    if (!parse_id(p, *out_bytes, &id)) return p;
    if (out) out[*out_n] = id;
    ++*out_n;
    p += *out_bytes;
  }
  return NULL;
}

static int shown(size_t bytes) { return bytes < 64 ? (int)bytes : 64; }

#define NO_TOKEN_ID "is no token id; ids are 0 or more"

// Ids separated by spaces, commas, brackets or line ends: "1 2", "[1, 2]", one a line.
static cairn_status read_ids(const char *text, crn_arena *arena, int32_t **out_ids, size_t *out_n) {
  size_t bytes;
  CRN_TRY(crn_arena_array(arena, strlen(text) / 2 + 1, sizeof **out_ids, out_ids));
  const char *bad = parse_ids(text, *out_ids, out_n, &bytes);
  return bad ? CRN_FAIL(INVALID_ARGUMENT, "'%.*s' " NO_TOKEN_ID, shown(bytes), bad) : CAIRN_OK;
}

// Ids among the arguments that are none are bad usage, told before the tokenizer is read.
static int check_ids(crn_tool *t) {
  size_t n, bytes;
  for (int i = 1; i < t->n_positionals; i++) {
    const char *bad = parse_ids(t->positionals[i], NULL, &n, &bytes);
    if (bad) return crn_tool_usage_error(t, "'%.*s' " NO_TOKEN_ID, shown(bytes), bad);
  }
  return TOOL_CONTINUE;
}

// Ids the tokenizer does not know give no text, which should not go unnoticed.
static void note_unknown(crn_tool *t, const cairn_tokenizer *tokenizer, const int32_t *ids, size_t n) {
  size_t n_unknown = 0;
  int32_t first = 0;
  for (size_t i = n; i-- > 0;) {
    if (cairn_tokenizer_token(tokenizer, ids[i])) continue;
    first = ids[i];
    n_unknown++;
  }
  if (n_unknown == 1) crn_tool_note(t, "note: id %d is not in the vocabulary and gives no text", (int)first);
  if (n_unknown > 1) crn_tool_note(t, "note: %zu ids are not in the vocabulary and give no text, the first is %d", n_unknown, (int)first);
}

static cairn_status print_json(const cairn_tokenizer *tokenizer, const tokens *t, const char *text, size_t bytes) {
  crn_json_writer w;
  crn_jw_initialize(&w, false);
  crn_jw_open_object(&w);
  crn_jw_key(&w, "ids");
  crn_jw_open_array(&w, true);
  for (size_t i = 0; i < t->n; i++) crn_jw_integer(&w, t->ids[i]);
  crn_jw_close_array(&w);
  crn_jw_key(&w, "tokens");
  crn_jw_open_array(&w, true);
  for (size_t i = 0; i < t->n; i++) crn_jw_text(&w, cairn_tokenizer_token(tokenizer, t->ids[i]));
  crn_jw_close_array(&w);
  if (t->spans) write_offsets(&w, t->spans, t->n);
  crn_jw_key(&w, "text");
  crn_jw_text_n(&w, text, bytes);
  crn_jw_close_object(&w);
  cairn_status status = crn_jw_print(&w, stdout);
  crn_jw_deinitialize(&w);
  return status;
}

// Places are as wide as the largest one, so that the tokens stand in one column.
static int place_width(const tokens *t) {
  size_t largest = 0;
  for (size_t i = 0; t->spans && i < t->n; i++) largest = t->spans[i].end > largest ? t->spans[i].end : largest;
  return snprintf(NULL, 0, "%zu", largest);
}

static void print_token(const cairn_tokenizer *tokenizer, const tokens *t, size_t i, int width) {
  const char *token = cairn_tokenizer_token(tokenizer, t->ids[i]);
  printf("%7d  ", (int)t->ids[i]);
  if (t->spans && t->spans[i].text >= 0) printf("%*zu-%-*zu  ", width, t->spans[i].begin, width, t->spans[i].end);
  if (t->spans && t->spans[i].text < 0) printf("%*s  ", 2 * width + 1, "");
  printf("%s%s\n", token ? token : "?", cairn_tokenizer_is_special(tokenizer, t->ids[i]) ? "  (special)" : "");
}

static void print_ids(const cairn_tokenizer *tokenizer, const tokens *t, bool show) {
  int width = place_width(t);
  for (size_t i = 0; i < t->n; i++) {
    if (show) {
      print_token(tokenizer, t, i, width);
    } else {
      printf("%s%d", i ? " " : "", (int)t->ids[i]);
    }
  }
  if (!show) putchar('\n');
}

static cairn_status convert_text(crn_tool *tool, const cairn_tokenizer *tokenizer, const tokenize_options *o) {
  crn_str in;
  tokens t = {0};
  size_t bytes = 0;
  char *text = NULL;
  crn_str_initialize(&in, NULL);
  cairn_status status;
  CRN_TRY_GOTO(read_input(tool, o, &in));
  if (o->decode) {
    CRN_TRY_GOTO(read_ids(in.data, tool->arena, &t.ids, &t.n));
    note_unknown(tool, tokenizer, t.ids, t.n);
    CRN_TRY_GOTO(crn_tool_decode(tokenizer, t.ids, t.n, o->skip_special, tool->arena, &text, &bytes));
  } else {
    CRN_TRY_GOTO(encode(tokenizer, in.data, in.size, !o->no_special, o->offsets, tool->arena, &t));
    text = in.data;
    bytes = in.size;
  }
  if (o->json) {
    status = print_json(tokenizer, &t, text, bytes);
  } else if (o->decode && !o->show) {
    fwrite(text, 1, bytes, stdout);
    if (isatty(STDOUT_FILENO)) putchar('\n');
  } else {
    print_ids(tokenizer, &t, o->show || o->offsets);
  }
done:
  crn_str_deinitialize(&in);
  return status;
}

static int run_tokenize(crn_tool *t, const void *values) {
  const tokenize_options *o = values;
  const char *path = NULL;
  cairn_tokenizer *tokenizer = NULL;
  if (o->json && o->json_lines) return crn_tool_usage_error(t, "--json and --json-lines exclude each other");
  if (o->skip_special && !o->decode) return crn_tool_usage_error(t, "--skip-special-tokens belongs to --decode");
  if (o->no_special && o->decode) return crn_tool_usage_error(t, "--no-special-tokens belongs to encoding, not to --decode");
  if (o->offsets && o->decode) return crn_tool_usage_error(t, "--offsets belongs to encoding, not to --decode");
  if (t->n_positionals > 1 && (o->json_lines || o->file))
    return crn_tool_usage_error(t, "the input comes from the arguments, --file or stdin, one of them");
  int code = o->decode ? check_ids(t) : TOOL_CONTINUE;
  if (code != TOOL_CONTINUE) return code;
  cairn_status status = crn_tool_open_context(t);
  if (status == CAIRN_OK) status = crn_source_locate(t, t->positionals[0], NULL, &path);
  if (status == CAIRN_OK) status = crn_tool_open_tokenizer(t, path, &tokenizer);
  if (status == CAIRN_OK) status = o->json_lines ? convert_lines(tokenizer, o) : convert_text(t, tokenizer, o);
  code = crn_tool_result(t, status);
  if (tokenizer) cairn_tokenizer_release(tokenizer);
  return crn_tool_flush(t, code);
}

const crn_tool_command crn_command_tokenize = {
    .name = "tokenize",
    .synopsis = "PATH [TEXT ...] [options]",
    .summary = "text to token ids and back",
    .description =
        "Converts with the tokenizer of PATH: a folder with tokenizer.json or tokenizer.model, one of these files, a bundle, or a GGUF "
        "file. The "
        "input is TEXT, or stdin. Ids are printed on one line; decoded text exactly as it is.\n"
        "\n"
        "  cairn tokenize bundle \"Hello there\"\n"
        "  cairn tokenize bundle --decode 9906 1070\n"
        "  echo '{\"text\":\"Hi\",\"add_special_tokens\":false}' | cairn tokenize bundle --json-lines",
    TOOL_OPTIONS(g_options),
    .min_positionals = 1,
    .max_positionals = 1 << 20,
    .negative = NO_TOKEN_ID,
    .defaults = &g_defaults,
    .values_bytes = sizeof g_defaults,
    .run = run_tokenize,
};
