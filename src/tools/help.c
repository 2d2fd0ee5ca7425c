#include "tools/help.h"

#include <string.h>

#include "tools/json_writer.h"

enum { TEXT_WIDTH = 100, HELP_COLUMN = 30 };

// Prints `text` wrapped, starting at column `at` with following lines indented to `indent`.
static void wrap(const char *text, int at, int indent) {
  int column = at;
  for (const char *p = text; *p;) {
    int n = (int)strcspn(p, " ");
    if (column > indent && column + 1 + n > TEXT_WIDTH) {
      printf("\n%*s", indent, "");
      column = indent;
    } else if (column > indent) {
      putchar(' ');
      column++;
    }
    printf("%.*s", n, p);
    column += n;
    p += n;
    p += strspn(p, " ");
  }
  putchar('\n');
}

static void print_option(const crn_tool_option *o) {
  char left[128];
  char letter[4] = "  ";
  if (o->letter) snprintf(letter, sizeof letter, "-%c", o->letter);
  int n = snprintf(left, sizeof left, "  %s%s --%s%s%s", letter, o->letter ? "," : " ", o->name, o->argument ? " " : "",
                   o->argument ? o->argument : "");
  printf("%s", left);
  if (n >= HELP_COLUMN - 1)
    printf("\n%*s", HELP_COLUMN, "");
  else
    printf("%*s", HELP_COLUMN - n, "");
  char help[1024];
  if (o->choices)
    snprintf(help, sizeof help, "%s (%s)", o->help, o->choices);
  else
    snprintf(help, sizeof help, "%s", o->help);
  wrap(help, HELP_COLUMN, HELP_COLUMN);
}

static void print_options(const crn_tool_option *options, int n) {
  const char *group = NULL;
  for (int i = 0; i < n; i++) {
    if (!options[i].group) continue;
    if (!group || strcmp(group, options[i].group) != 0) printf("\n%s\n", options[i].group);
    group = options[i].group;
    print_option(&options[i]);
  }
}

// Paragraphs are wrapped; lines that start with a space (examples) are kept as they are.
static void print_description(const char *text) {
  while (*text) {
    size_t n = strcspn(text, "\n");
    char line[2048];
    snprintf(line, sizeof line, "%.*s", (int)n, text);
    if (line[0] == ' ' || line[0] == 0)
      printf("%s\n", line);
    else
      wrap(line, 0, 0);
    text += n;
    if (*text == '\n') text++;
  }
}

cairn_status crn_tool_help_text(crn_tool *t, const crn_tool_command *command) {
  int n_common;
  const crn_tool_option *common = crn_tool_common_options(command, &n_common);
  printf("usage: %s %s\n\n", t->program, command->synopsis);
  print_description(command->description);
  print_options(command->options, command->n_options);
  print_options(common, n_common);
  return CAIRN_OK;
}

static void option_json(crn_json_writer *w, const crn_tool_option *o) {
  char letter[2] = {o->letter, 0};
  crn_jw_open_object(w);
  crn_jw_put_text(w, "name", o->name);
  crn_jw_put_text(w, "short", o->letter ? letter : NULL);
  crn_jw_put_text(w, "argument", o->kind == OPTION_FLAG ? NULL : o->argument);
  crn_jw_put_boolean(w, "repeatable", o->kind == OPTION_LIST);
  crn_jw_key(w, "choices");
  if (o->choices) {
    crn_jw_open_array(w, true);
    for (const char *p = o->choices; *p;) {
      size_t n = strcspn(p, "|");
      crn_jw_text_n(w, p, n);
      p += n + (p[n] == '|');
    }
    crn_jw_close_array(w);
  } else {
    crn_jw_null(w);
  }
  crn_jw_put_text(w, "group", o->group);
  crn_jw_put_text(w, "help", o->help);
  crn_jw_close_object(w);
}

static void command_json(crn_json_writer *w, const crn_tool_command *c) {
  int n_common;
  const crn_tool_option *common = crn_tool_common_options(c, &n_common);
  crn_jw_open_object(w);
  crn_jw_put_text(w, "name", c->name);
  crn_jw_put_text(w, "synopsis", c->synopsis);
  crn_jw_put_text(w, "summary", c->summary);
  crn_jw_put_text(w, "description", c->description);
  crn_jw_key(w, "options");
  crn_jw_open_array(w, false);
  for (int i = 0; i < c->n_options; i++) option_json(w, &c->options[i]);
  for (int i = 0; i < n_common; i++) option_json(w, &common[i]);
  crn_jw_close_array(w);
  crn_jw_close_object(w);
}

static cairn_status finish(crn_json_writer *w) {
  cairn_status status = crn_jw_print(w, stdout);
  crn_jw_deinitialize(w);
  return status;
}

cairn_status crn_tool_help_json(crn_tool *t, const crn_tool_command *command) {
  (void)t;
  crn_json_writer w;
  crn_jw_initialize(&w, true);
  command_json(&w, command);
  return finish(&w);
}

cairn_status crn_tool_overview_json(crn_tool *t, const crn_tool_command *const *commands, int n) {
  (void)t;
  crn_json_writer w;
  crn_jw_initialize(&w, true);
  crn_jw_open_object(&w);
  crn_jw_put_text(&w, "version", cairn_version());
  crn_jw_key(&w, "commands");
  crn_jw_open_array(&w, false);
  for (int i = 0; i < n; i++) command_json(&w, commands[i]);
  crn_jw_close_array(&w);
  crn_jw_close_object(&w);
  return finish(&w);
}

cairn_status crn_tool_overview_text(crn_tool *t, const crn_tool_command *const *commands, int n) {
  (void)t;
  printf("cairn %s - runs Core AI models\n\nusage: cairn COMMAND [arguments] [options]\n\n", cairn_version());
  for (int i = 0; i < n; i++) printf("  %-12s%s\n", commands[i]->name, commands[i]->summary);
  puts(
      "\n'cairn COMMAND --help' tells about one command, 'cairn help --json' about all of them.\n"
      "\nFirst steps:\n"
      "  cairn inspect MODEL                     what a model takes and gives\n"
      "  cairn generate MODEL --prompt \"Hello\"   text from a language model\n"
      "  cairn chat MODEL                        a conversation\n"
      "\nExit codes: 0 success, 1 failure, 64 bad usage. Data goes to stdout, messages to stderr.");
  return CAIRN_OK;
}

// --- completion -----------------------------------------------------------------------------------------------------------

static void completion_words(const crn_tool_option *options, int n) {
  for (int i = 0; i < n; i++) {
    if (!options[i].group) continue;
    printf(" --%s", options[i].name);
    if (options[i].letter) printf(" -%c", options[i].letter);
  }
}

// Values: the choices of an option, folders, files; nothing for numbers and free text.
static void completion_values(const crn_tool_command *c) {
  for (int i = 0; i < c->n_options; i++) {
    const crn_tool_option *o = &c->options[i];
    if (o->kind == OPTION_FLAG || !o->group) continue;
    printf("    %s:--%s) ", c->name, o->name);
    if (o->choices || o->kind == OPTION_SWITCH) {
      printf("COMPREPLY=($(compgen -W '");
      for (const char *p = o->choices ? o->choices : "true|false"; *p; p++) putchar(*p == '|' ? ' ' : *p);
      puts("' -- \"$cur\")); return ;;");
    } else if (o->argument && (strstr(o->argument, "FILE") || strstr(o->argument, "PATH"))) {
      puts("COMPREPLY=($(compgen -f -- \"$cur\")); return ;;");
    } else if (o->argument && strstr(o->argument, "DIR")) {
      puts("COMPREPLY=($(compgen -d -- \"$cur\")); return ;;");
    } else {
      puts("COMPREPLY=(); return ;;");
    }
  }
}

cairn_status crn_tool_completion_bash(crn_tool *t, const crn_tool_command *const *commands, int n) {
  (void)t;
  puts("# bash completion of cairn; load it with: source <(cairn completion bash)");
  puts("_cairn() {\n  local cur=\"${COMP_WORDS[COMP_CWORD]}\" prev=\"${COMP_WORDS[COMP_CWORD-1]}\" command=\"${COMP_WORDS[1]}\"");
  printf("  if [ \"$COMP_CWORD\" -eq 1 ]; then\n    COMPREPLY=($(compgen -W '");
  for (int i = 0; i < n; i++) printf("%s%s", i ? " " : "", commands[i]->name);
  puts("' -- \"$cur\"))\n    return\n  fi\n  case \"$command:$prev\" in");
  for (int i = 0; i < n; i++) completion_values(commands[i]);
  puts("  esac\n  case \"$cur\" in\n    -*) ;;\n    *) COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n  esac\n  case \"$command\" in");
  for (int i = 0; i < n; i++) {
    printf("    %s) COMPREPLY=($(compgen -W '", commands[i]->name);
    completion_words(commands[i]->options, commands[i]->n_options);
    int n_common;
    const crn_tool_option *common = crn_tool_common_options(commands[i], &n_common);
    completion_words(common, n_common);
    puts("' -- \"$cur\")) ;;");
  }
  puts("  esac\n}\ncomplete -o filenames -F _cairn cairn");
  return CAIRN_OK;
}
