/// What every command of the cairn program shares: messages, exit codes, the context, progress.
///
/// Data goes to stdout and everything else to stderr, so that output can be piped whatever is said along the way.
#ifndef CRN_TOOLS_TOOL_H
#define CRN_TOOLS_TOOL_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"
#include "cairn/model.h"
#include "tools/options.h"

/// Exit codes. TOOL_CONTINUE is no exit code: it means "not finished".
enum { TOOL_CONTINUE = -1, TOOL_OK = 0, TOOL_FAILURE = 1, TOOL_USAGE = 64 };

/// A log line that waits.
typedef struct crn_held_line {
  struct crn_held_line *next;
  cairn_log_level level;
  const char *text;
} crn_held_line;

struct crn_tool {
  const char *program;       ///< as messages name it: "cairn run", "llm-runner"
  const char *error_prefix;  ///< before the text of failures: "cairn run: ", "Error: "
  const crn_tool_command *command;
  bool quiet, verbose;
  bool told_of_tools;  ///< that the template does not use them: once is enough
  bool mute_log;       ///< warnings of the library are shown by the command itself
  crn_option_integer threads;
  const char *trace;                ///< file of --trace, NULL = none
  const struct crn_places *places;  ///< what crn_places_check found, for crn_places_check_read
  const char **positionals;
  int n_positionals;
  cairn_context *context;  ///< made by crn_tool_open_context
  bool progress_shown;     ///< a progress line is on the terminal
  atomic_bool in_line;     ///< the text on stdout has not ended its line
  bool hold_log;           ///< log lines are kept until crn_tool_release_log
  crn_held_line *held, **held_end;
  crn_arena *arena;  ///< lives as long as the program
};

/// Creates the context the command works in. Its log lines go to stderr: warnings always, more with --verbose.
cairn_status crn_tool_open_context(crn_tool *t);

/// Writes the file of --trace, when there is one. Returns `code`, or TOOL_FAILURE.
int crn_tool_end_trace(crn_tool *t, int code);

/// Writes text to stdout at once. A message that comes while its line is open begins a line of its own on a terminal.
void crn_tool_text(crn_tool *t, const char *text, size_t n);

/// Keeps log lines from now on. crn_tool_release_log prints them; when `status` is a failure, those are left out whose
/// reason (what follows the first ": ") its message tells anyway.
void crn_tool_hold_log(crn_tool *t);
void crn_tool_release_log(crn_tool *t, cairn_status status);

/// Prints the record of the last failure and returns TOOL_FAILURE.
int crn_tool_fail(crn_tool *t);
/// TOOL_OK, or crn_tool_fail when `status` is a failure.
int crn_tool_result(crn_tool *t, cairn_status status);
/// Prints a message and the short usage, and returns TOOL_USAGE.
int crn_tool_usage_error(crn_tool *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/// A line on stderr: "cairn run: warning: …". Not silenced by -q.
void crn_tool_warn(crn_tool *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/// A line on stderr that -q silences.
void crn_tool_note(crn_tool *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/// Progress: one line on stderr, rewritten in place, only when stderr is a terminal and -q is absent. `total` 0 = unknown.
void crn_tool_progress(crn_tool *t, const char *phase, int64_t done, int64_t total);
/// Removes the progress line. Everything above that prints does it too.
void crn_tool_progress_clear(crn_tool *t);
/// The precision an option names; the default for NULL.
cairn_precision crn_precision_of(const char *text);
/// The device an option names; the default for NULL.
cairn_device crn_device_of(const char *text);
#define CRN_DEVICE_CHOICES "cpu"
#define CRN_DEVICE_HELP "the device the model is prepared for"
#define CRN_RESHAPES_HELP                                                                                                               \
  "shapes change from run to run; they may here without it, too. A model whose shapes are fixed gets a warning, and packed weights an " \
  "entry of the cache of their own"
/// crn_tool_progress in the form model and engine options want; `user` is the tool.
void crn_tool_progress_callback(void *user, const char *phase, int64_t done, int64_t total);

/// --clear-coreai-cache of Apple's programs: forgets what was packed of the models at `path`, for whatever options, and says so in their
/// words, on stdout. `name` is the model as it was given.
cairn_status crn_tool_clear_cache(crn_tool *t, const char *name, const char *path);

/// Flushes stdout and reports a failed write (a full disk, a closed pipe). Returns `code`, or TOOL_FAILURE.
int crn_tool_flush(crn_tool *t, int code);

/// "1.5 MB" in the caller's buffer.
const char *crn_tool_size_text(double bytes, char *buffer, size_t capacity);

/// Seconds of a clock that never goes back.
double crn_tool_now(void);

#endif
