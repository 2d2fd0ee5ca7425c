#include "tools/options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "tools/help.h"
#include "tools/tool.h"

static const char g_common_group[] = "General";

static const crn_tool_option g_common[] = {
    {.name = "quiet",
     .letter = 'q',
     .kind = OPTION_FLAG,
     .offset = offsetof(crn_tool, quiet),
     .group = g_common_group,
     .help = "no progress and no notes; warnings and errors are still printed"},
    {.name = "verbose",
     .letter = 'v',
     .kind = OPTION_FLAG,
     .offset = offsetof(crn_tool, verbose),
     .group = g_common_group,
     .help = "print what is decided along the way"},
    {.name = "threads",
     .kind = OPTION_INTEGER,
     .offset = offsetof(crn_tool, threads),
     .argument = "N",
     .group = g_common_group,
     .help = "worker threads (default: CAIRN_THREADS, else the usable cores)",
     .minimum = 1,
     .maximum = 256},
    {.name = "help",
     .letter = 'h',
     .kind = OPTION_FLAG,
     .argument = NULL,
     .group = g_common_group,
     .help = "print this text; with --json as one JSON document"},
    {.name = "trace",
     .kind = OPTION_TEXT,
     .offset = offsetof(crn_tool, trace),
     .argument = "FILE",
     .place = PLACE_OUTPUT,
     .group = g_common_group,
     .help = "write what was done and how long it took as a trace for Perfetto or Chrome"},
};
// The last one is for commands that run models.
enum { N_COMMON = sizeof g_common / sizeof *g_common, COMMON_TRACE = N_COMMON - 1, COMMON_HELP = N_COMMON - 2 };

static int count_common(const crn_tool_command *c) { return c->can_trace ? N_COMMON : COMMON_TRACE; }

const crn_tool_option *crn_tool_common_options(const crn_tool_command *command, int *out_n) {
  *out_n = count_common(command);
  return g_common;
}

bool crn_tool_parse_integer(const char *text, int64_t *out) {
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (end == text || *end || errno) return false;
  *out = value;
  return true;
}

bool crn_tool_parse_number(const char *text, double *out) {
  char *end;
  errno = 0;
  double value = strtod(text, &end);
  if (end == text || *end || !isfinite(value)) return false;
  *out = value;
  return true;
}

bool crn_tool_is_choice(const char *choices, const char *text) {
  size_t n = strlen(text);
  for (const char *p = choices; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL) {
    size_t m = strcspn(p, "|");
    if (m == n && !memcmp(p, text, n)) return true;
  }
  return false;
}

// --- storing one value ------------------------------------------------------------------------------------------------

static int out_of_bounds(crn_tool *t, const crn_tool_option *o, const char *text) {
  enum { PERCENTS = 1000000 };
  // A tiny lower bound stands for "not zero".
  if (o->minimum > 0 && o->minimum * PERCENTS < 1)
    return crn_tool_usage_error(t, "--%s must be above 0 and at most %.15g, not '%s'", o->name, o->maximum, text);
  return crn_tool_usage_error(t, "--%s must be from %.15g to %.15g, not '%s'", o->name, o->minimum, o->maximum, text);
}

static bool inside(const crn_tool_option *o, double value) {
  return (o->minimum == 0 && o->maximum == 0) || (value >= o->minimum && value <= o->maximum);
}

// Only digits after an optional sign: a whole number, whether it fits or not.
static bool is_whole_number(const char *text) {
  text += *text == '-' || *text == '+';
  return *text && !text[strspn(text, "0123456789")];
}

// What does not fit into 64 bits. Bounds of options are small enough to be exact in a double; the widest are not.
static int too_long(crn_tool *t, const crn_tool_option *o, const char *text) {
  const char *how = *text == '-' ? "small" : "large";
  if (o->minimum == 0 && o->maximum == 0)
    return crn_tool_usage_error(t, "--%s %s is too %s: it must be from %lld to %lld", o->name, text, how, (long long)INT64_MIN,
                                (long long)INT64_MAX);
  return crn_tool_usage_error(t, "--%s %s is too %s: it must be from %.15g to %.15g", o->name, text, how, o->minimum, o->maximum);
}

static int store_integer(crn_tool *t, const crn_tool_option *o, crn_option_integer *v, const char *text) {
  if (!is_whole_number(text)) return crn_tool_usage_error(t, "--%s must be a whole number, not '%s'", o->name, text);
  if (!crn_tool_parse_integer(text, &v->value)) return too_long(t, o, text);
  if (!inside(o, (double)v->value)) return out_of_bounds(t, o, text);
  v->given = true;
  return TOOL_CONTINUE;
}

static int store_unsigned(crn_tool *t, const crn_tool_option *o, crn_option_unsigned *v, const char *text) {
  if (!is_whole_number(text)) return crn_tool_usage_error(t, "--%s must be a whole number, not '%s'", o->name, text);
  errno = 0;
  unsigned long long value = strtoull(text, NULL, 10);  // takes a minus sign without a word
  if (*text == '-' || errno)
    return crn_tool_usage_error(t, "--%s %s is too %s: it must be from 0 to %llu", o->name, text, *text == '-' ? "small" : "large",
                                (unsigned long long)UINT64_MAX);
  v->value = value;
  v->given = true;
  return TOOL_CONTINUE;
}

static int store_text(crn_tool *t, const crn_tool_option *o, const char **slot, const char *text) {
  bool is_path = o->argument && (!strcmp(o->argument, "FILE") || !strcmp(o->argument, "DIR") || !strcmp(o->argument, "PATH"));
  if (is_path && !*text) return crn_tool_usage_error(t, "--%s is empty; a path is expected", o->name);
  *slot = text;
  return TOOL_CONTINUE;
}

static int store_item(crn_tool *t, crn_option_list *list, const char *text) {
  const char **items = NULL;
  if (crn_arena_array(t->arena, (size_t)list->n + 1, sizeof *items, &items) != CAIRN_OK) return crn_tool_fail(t);
  if (list->n) memcpy(items, list->items, (size_t)list->n * sizeof *items);
  items[list->n] = text;
  list->items = items;
  list->n++;
  return TOOL_CONTINUE;
}

static int store(crn_tool *t, const crn_tool_option *o, void *values, const char *text) {
  void *slot = (char *)values + o->offset;
  if (o->choices && !crn_tool_is_choice(o->choices, text))
    return crn_tool_usage_error(t, "--%s must be one of %s, not '%s'", o->name, o->choices, text);
  switch (o->kind) {
    case OPTION_FLAG:
      *(bool *)slot = true;
      break;
    case OPTION_TEXT:
      return store_text(t, o, slot, text);
    case OPTION_LIST:
      return store_item(t, slot, text);
    case OPTION_SWITCH:
      if (!crn_tool_is_choice("true|false", text)) return crn_tool_usage_error(t, "--%s must be true or false, not '%s'", o->name, text);
      *(bool *)slot = !strcmp(text, "true");
      break;
    case OPTION_INTEGER:
      return store_integer(t, o, slot, text);
    case OPTION_UNSIGNED:
      return store_unsigned(t, o, slot, text);
    case OPTION_NUMBER: {
      crn_option_number *v = slot;
      if (!crn_tool_parse_number(text, &v->value)) return crn_tool_usage_error(t, "--%s must be a number, not '%s'", o->name, text);
      if (!inside(o, v->value)) return out_of_bounds(t, o, text);
      v->given = true;
      break;
    }
  }
  return TOOL_CONTINUE;
}

// --- getopt from the table ----------------------------------------------------------------------------------------------

typedef struct getopt_tables {
  struct option *longs;
  char *shorts;
} getopt_tables;

static const crn_tool_option *option_at(const crn_tool_command *c, int i) {
  return i < c->n_options ? &c->options[i] : &g_common[i - c->n_options];
}

// A long option is reported by its index, a short one by its letter; letters are mapped back to their index.
static cairn_status build_tables(crn_tool *t, const crn_tool_command *c, getopt_tables *out) {
  int n = c->n_options + count_common(c);
  char *s = NULL;
  CRN_TRY(crn_arena_array(t->arena, (size_t)n + 1, sizeof *out->longs, &out->longs));
  CRN_TRY(crn_arena_array(t->arena, (size_t)n * 2 + 2, 1, &s));
  out->shorts = s;
  *s++ = ':';  // a missing value is told apart from an unknown option
  for (int i = 0; i < n; i++) {
    const crn_tool_option *o = option_at(c, i);
    bool takes_value = o->kind != OPTION_FLAG;
    out->longs[i] = (struct option){o->name, takes_value ? required_argument : no_argument, NULL, 256 + i};
    if (!o->letter) continue;
    *s++ = o->letter;
    if (takes_value) *s++ = ':';
  }
  return CAIRN_OK;
}

static int index_of_letter(const crn_tool_command *c, int letter) {
  for (int i = 0; i < c->n_options + count_common(c); i++)
    if (option_at(c, i)->letter == letter) return i;
  return -1;
}

// getopt_long takes abbreviations; they would break scripts whenever a new option makes one ambiguous. `end` is the place
// behind the option and its value. Returns the token when it is an abbreviation, else NULL.
static const char *abbreviation(const crn_tool_option *o, char **argv, int end) {
  bool apart = o->kind != OPTION_FLAG && optarg == argv[end - 1];
  const char *token = argv[end - (apart ? 2 : 1)];
  size_t n = strlen(o->name);
  bool exact = !strncmp(token + 2, o->name, n) && (token[2 + n] == 0 || token[2 + n] == '=');
  return exact ? NULL : token;
}

// The argument that getopt stumbled over when it read "-1" as an option called 1.
static const char *negative_number(int argc, char **argv) {
  for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
    if (argv[i][0] == '-' && argv[i][1] == optopt) return argv[i];
  return argv[optind - 1];
}

static int bad_option(crn_tool *t, const crn_tool_command *c, int code, int argc, char **argv) {
  const char *token = argv[optind - 1];
  if (c->negative && optopt >= '0' && optopt <= '9') return crn_tool_usage_error(t, "'%s' %s", negative_number(argc, argv), c->negative);
  if (optopt > 0 && optopt < 256) {
    if (code == ':') return crn_tool_usage_error(t, "option -%c needs a value", optopt);
    return crn_tool_usage_error(t, "unknown option -%c", optopt);
  }
  if (code == ':') return crn_tool_usage_error(t, "option %s needs a value", token);
  if (optopt >= 256) return crn_tool_usage_error(t, "option %.*s takes no value", (int)strcspn(token, "="), token);
  return crn_tool_usage_error(t, "unknown option %.*s", (int)strcspn(token, "="), token);
}

static int print_help(crn_tool *t, const crn_tool_command *c, int argc, char **argv) {
  bool json = false;
  for (int i = 1; i < argc; i++) json = json || !strcmp(argv[i], "--json");
  return crn_tool_flush(t, crn_tool_result(t, json ? crn_tool_help_json(t, c) : crn_tool_help_text(t, c)));
}

static int check_positionals(crn_tool *t, const crn_tool_command *c, int argc, char **argv) {
  t->positionals = (const char **)argv + optind;
  t->n_positionals = argc - optind;
  if (t->n_positionals > c->max_positionals) return crn_tool_usage_error(t, "unexpected argument '%s'", t->positionals[c->max_positionals]);
  if (t->n_positionals < c->min_positionals) {
    int n = (int)strcspn(c->synopsis, " ");
    return crn_tool_usage_error(t, "%.*s is missing", n, c->synopsis);
  }
  if (c->min_positionals && !*t->positionals[0])
    return crn_tool_usage_error(t, "%.*s is empty", (int)strcspn(c->synopsis, " "), c->synopsis);
  return TOOL_CONTINUE;
}

int crn_tool_parse(crn_tool *t, const crn_tool_command *c, int argc, char **argv, void *values) {
  getopt_tables tables;
  if (build_tables(t, c, &tables) != CAIRN_OK) return crn_tool_fail(t);
  optind = 0;  // makes glibc start over, also its permutation of arguments
  opterr = 0;
  int code;
  bool *given = NULL;
  if (crn_arena_array(t->arena, (size_t)(c->n_options + count_common(c)), sizeof *given, &given) != CAIRN_OK) return crn_tool_fail(t);
  memset(given, 0, (size_t)(c->n_options + count_common(c)) * sizeof *given);
  while ((code = getopt_long(argc, argv, tables.shorts, tables.longs, NULL)) != -1) {
    if (code == '?' || code == ':') return bad_option(t, c, code, argc, argv);
    int i = code >= 256 ? code - 256 : index_of_letter(c, code);
    const crn_tool_option *o = option_at(c, i);
    const char *token = code >= 256 ? abbreviation(o, argv, optind) : NULL;
    if (token) return crn_tool_usage_error(t, "unknown option %.*s (did you mean --%s?)", (int)strcspn(token, "="), token, o->name);
    if (o == &g_common[COMMON_HELP]) return print_help(t, c, argc, argv);
    const bool counts_once = o->kind != OPTION_FLAG && o->kind != OPTION_LIST;
    if (counts_once && given[i]) crn_tool_warn(t, "--%s was given before; the last one, '%s', counts", o->name, optarg);
    given[i] = true;
    int result = store(t, o, i < c->n_options ? values : (void *)t, optarg);
    if (result != TOOL_CONTINUE) return result;
  }
  return check_positionals(t, c, argc, argv);
}
