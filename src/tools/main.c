// The cairn program: finds the command, parses its options, runs it.
//
//   main.c       dispatch            options.c  parsing from tables        help.c  help, completion from the same tables
//   cmd_*.c      one per command     tool.c     messages, progress         source.c, values.c, …  what commands share
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "tools/commands.h"
#include "tools/help.h"
#include "tools/json_writer.h"
#include "tools/places.h"
#include "tools/tool.h"

static const crn_tool_command *const g_commands[] = {
    &crn_command_run,      &crn_command_generate, &crn_command_chat,    &crn_command_bench, &crn_command_inspect,    &crn_command_import,
    &crn_command_tokenize, &crn_command_template, &crn_command_compile, &crn_command_cache, &crn_command_completion, &crn_command_version,
};
enum { N_COMMANDS = sizeof g_commands / sizeof g_commands[0] };

const crn_tool_command *const *crn_tool_commands(int *out_n) {
  *out_n = N_COMMANDS;
  return g_commands;
}

static const crn_tool_command *find_command(const char *name) {
  for (int i = 0; i < N_COMMANDS; i++)
    if (!strcmp(g_commands[i]->name, name)) return g_commands[i];
  return NULL;
}

// --- version ----------------------------------------------------------------------------------------------------------

typedef struct version_options {
  bool json;
} version_options;

static const crn_tool_option g_version_options[] = {
    {.name = "json", .kind = OPTION_FLAG, .offset = offsetof(version_options, json), .group = "Output", .help = "one JSON document"},
};
static const version_options g_version_defaults;

static int run_version(crn_tool *t, const void *values) {
  const version_options *o = values;
  if (o->json)
    printf("{\"name\": \"cairn\", \"version\": \"%s\"}\n", cairn_version());
  else
    printf("cairn %s\n", cairn_version());
  return crn_tool_flush(t, TOOL_OK);
}

const crn_tool_command crn_command_version = {
    .name = "version",
    .synopsis = "[--json]",
    .summary = "the version of this program",
    .description = "Prints the version.",
    TOOL_OPTIONS(g_version_options),
    .defaults = &g_version_defaults,
    .values_bytes = sizeof g_version_defaults,
    .run = run_version,
};

// --- dispatch ---------------------------------------------------------------------------------------------------------

static int run_command(crn_tool *t, const crn_tool_command *command, int argc, char **argv) {
  void *values = NULL;
  t->command = command;
  if (crn_arena_alloc(t->arena, command->values_bytes, &values) != CAIRN_OK) return crn_tool_fail(t);
  if (command->values_bytes) memcpy(values, command->defaults, command->values_bytes);
  int code = crn_tool_parse(t, command, argc, argv, values);
  if (code == TOOL_CONTINUE && crn_places_check(t, command, values) != CAIRN_OK) code = crn_tool_fail(t);
  if (code == TOOL_CONTINUE) code = crn_tool_end_trace(t, command->run(t, values));
  crn_tool_progress_clear(t);
  cairn_context_release(t->context);
  return code;
}

static int unknown_command(crn_tool *t, const char *name) {
  fprintf(stderr, "%s'%s' is no command; the commands are", t->error_prefix, name);
  for (int i = 0; i < N_COMMANDS; i++) fprintf(stderr, "%s %s", i ? "," : "", g_commands[i]->name);
  fputs("\nTry 'cairn help'.\n", stderr);
  return TOOL_USAGE;
}

// "help [COMMAND] [--json]", in any order.
static int run_help(crn_tool *t, int argc, char **argv) {
  const char *topic = NULL;
  bool json = false;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--json"))
      json = true;
    else if (argv[i][0] == '-' || topic)
      return crn_tool_usage_error(t, "unexpected argument '%s'; usage: cairn help [COMMAND] [--json]", argv[i]);
    else
      topic = argv[i];
  }
  if (!topic)
    return crn_tool_flush(t, crn_tool_result(t, json ? crn_tool_overview_json(t, g_commands, N_COMMANDS)
                                                     : crn_tool_overview_text(t, g_commands, N_COMMANDS)));
  const crn_tool_command *command = find_command(topic);
  if (!command) return unknown_command(t, topic);
  char program[64];
  snprintf(program, sizeof program, "cairn %s", topic);
  t->program = program;
  return crn_tool_flush(t, crn_tool_result(t, json ? crn_tool_help_json(t, command) : crn_tool_help_text(t, command)));
}

static int run_cairn(crn_tool *t, int argc, char **argv) {
  t->program = "cairn";
  t->error_prefix = "cairn: ";
  if (argc < 2) {
    fputs("usage: cairn COMMAND [arguments] [options]\nTry 'cairn help'.\n", stderr);
    return TOOL_USAGE;
  }
  const char *name = argv[1];
  if (!strcmp(name, "help") || !strcmp(name, "--help") || !strcmp(name, "-h")) return run_help(t, argc - 1, argv + 1);
  if (!strcmp(name, "--version") || !strcmp(name, "-V")) name = "version";
  const crn_tool_command *command = find_command(name);
  if (!command) return unknown_command(t, name);
  char program[64], prefix[72];
  snprintf(program, sizeof program, "cairn %s", name);
  snprintf(prefix, sizeof prefix, "%s: ", program);
  t->program = program;
  t->error_prefix = prefix;
  return run_command(t, command, argc - 1, argv + 1);
}

// The program under another name is one of Apple's tools.
static const crn_tool_command *find_alias(const char *name) {
  static const crn_tool_command *const aliases[] = {&crn_command_llm_runner, &crn_command_llm_benchmark};
  for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++) {
    if (!strcmp(aliases[i]->name, name)) return aliases[i];
  }
  return NULL;
}

int main(int argc, char **argv) {
  crn_arena arena;
  // A file that may not grow (ulimit -f) is then a write that fails, which is told like a full disk, instead of the end of the program.
  signal(SIGXFSZ, SIG_IGN);
  crn_arena_initialize(&arena, NULL);
  crn_tool t = {.arena = &arena};
  const char *base = argc > 0 && strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argc > 0 ? argv[0] : "cairn";
  int code;
  const crn_tool_command *alias = find_alias(base);
  if (alias) {
    t.program = alias->name;
    t.error_prefix = "Error: ";
    code = run_command(&t, alias, argc, argv);
  } else {
    code = run_cairn(&t, argc, argv);
  }
  crn_arena_deinitialize(&arena);
  return code;
}
