/// One table per command describes its options. Parsing, help text, `--help --json` and shell completion all read it.
#ifndef CRN_TOOLS_OPTIONS_H
#define CRN_TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// What an option's value becomes in the command's own struct of values (at `offset`).
typedef enum crn_option_kind {
  OPTION_FLAG,      ///< bool, set to true
  OPTION_TEXT,      ///< const char *
  OPTION_INTEGER,   ///< crn_option_integer
  OPTION_UNSIGNED,  ///< crn_option_unsigned: any of 64 bits
  OPTION_NUMBER,    ///< crn_option_number
  OPTION_LIST,      ///< crn_option_list; may be repeated
  OPTION_SWITCH     ///< bool, "true" or "false"
} crn_option_kind;

typedef struct crn_option_integer {
  int64_t value;
  bool given;
} crn_option_integer;

typedef struct crn_option_unsigned {
  uint64_t value;
  bool given;
} crn_option_unsigned;

typedef struct crn_option_number {
  double value;
  bool given;
} crn_option_number;

typedef struct crn_option_list {
  const char **items;
  int n;
} crn_option_list;

/// What is done with the file or folder that an option names: tools/places.h checks all of a command line by it.
typedef enum crn_option_place {
  PLACE_NONE,     ///< it names none
  PLACE_INPUT,    ///< is read
  PLACE_MODEL,    ///< is read, and may be a name that is looked for
  PLACE_TABLE,    ///< INPUT=FILE, where FILE is read
  PLACE_OUTPUT,   ///< a file that is written
  PLACE_DEEP,     ///< a file that is written, in folders that are made
  PLACE_SESSION,  ///< FILE and FILE.json are written
  PLACE_FOLDER,   ///< files are put in
  PLACE_ASSET,    ///< the folder itself is written
  PLACE_CACHE     ///< a folder that is read and written, and made when it is absent
} crn_option_place;

typedef struct crn_tool_option {
  const char *name;  ///< without the dashes
  char letter;       ///< short form, 0 = none
  crn_option_kind kind;
  size_t offset;
  const char *argument;  ///< name of the value in help; NULL for flags. FILE and DIR complete to paths
  const char *group;     ///< heading in help; NULL = accepted but not shown
  const char *help;
  const char *choices;      ///< "a|b|c", NULL = any text
  double minimum, maximum;  ///< of integers and numbers; both 0 = any
  crn_option_place place;   ///< of texts and lists
} crn_tool_option;

typedef struct crn_tool crn_tool;

typedef struct crn_tool_command {
  const char *name;
  const char *synopsis;     ///< after the program name, e.g. "ASSET --io FILE [options]"
  const char *summary;      ///< one line
  const char *description;  ///< paragraphs of help: what it does, then examples
  const crn_tool_option *options;
  int n_options;
  int min_positionals, max_positionals;
  const char *negative;  ///< what is said of an argument such as -1, e.g. "is no token id"; NULL = an unknown option
  bool reads_model;      ///< the first argument is a model
  bool can_trace;        ///< runs models: takes --trace
  const void *defaults;  ///< initial values, `values_bytes` large
  size_t values_bytes;
  int (*run)(crn_tool *t, const void *values);
} crn_tool_command;

#define TOOL_OPTIONS(table) .options = (table), .n_options = (int)(sizeof(table) / sizeof *(table))

/// Options every command has (-q, --verbose, --threads, -h), and --trace of those that can be traced; their values go into the
/// tool.
const crn_tool_option *crn_tool_common_options(const crn_tool_command *command, int *out_n);

/// Parses `argv` (argv[0] is skipped) into `values` and the tool's common fields and positionals. Returns -1 to go on,
/// or an exit code when the program should end: bad usage (a message was printed), or help was asked for and printed.
int crn_tool_parse(crn_tool *t, const crn_tool_command *command, int argc, char **argv, void *values);

/// Whether `text` is one of "a|b|c".
bool crn_tool_is_choice(const char *choices, const char *text);

/// Whole-text numbers; false when the text is anything else.
bool crn_tool_parse_integer(const char *text, int64_t *out);
bool crn_tool_parse_number(const char *text, double *out);

#endif
