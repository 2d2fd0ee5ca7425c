#include "tools/tool.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cairn/specialize.h"
#include "cairn/trace.h"

enum { MESSAGE_BYTES = 4096 };

void crn_tool_progress_clear(crn_tool *t) {
  if (!t->progress_shown) return;
  fputs("\r\033[K", stderr);
  fflush(stderr);
  t->progress_shown = false;
}

void crn_tool_text(crn_tool *t, const char *text, size_t n) {
  fwrite(text, 1, n, stdout);
  fflush(stdout);
  if (n) atomic_store(&t->in_line, text[n - 1] != '\n');
}

// In front of a message.
static void leave_line(crn_tool *t) {
  crn_tool_progress_clear(t);
  if (atomic_exchange(&t->in_line, false) && isatty(STDOUT_FILENO) && isatty(STDERR_FILENO)) fputc('\n', stderr);
}

void crn_tool_progress(crn_tool *t, const char *phase, int64_t done, int64_t total) {
  if (t->quiet || !isatty(STDERR_FILENO)) return;
  if (total > 0)
    fprintf(stderr, "\r\033[K%s %d%%", phase, (int)(100.0 * (double)done / (double)total));
  else
    fprintf(stderr, "\r\033[K%s ...", phase);
  fflush(stderr);
  t->progress_shown = true;
}

cairn_precision crn_precision_of(const char *text) {
  for (cairn_precision p = CAIRN_PRECISION_EXACT; text && p <= CAIRN_PRECISION_AUTO; p++) {
    if (strcmp(text, cairn_precision_text(p)) == 0) return p;
  }
  return CAIRN_PRECISION_DEFAULT;
}

cairn_device crn_device_of(const char *text) {
  for (cairn_device d = CAIRN_DEVICE_CPU; text && d <= CAIRN_DEVICE_NEURAL_ENGINE; d++) {
    if (strcmp(text, cairn_device_text(d)) == 0) return d;
  }
  return CAIRN_DEVICE_DEFAULT;
}

void crn_tool_progress_callback(void *user, const char *phase, int64_t done, int64_t total) { crn_tool_progress(user, phase, done, total); }

static void print_line(crn_tool *t, const char *prefix, const char *fmt, va_list args) {
  leave_line(t);
  // Text that was already produced should be seen before the message about it.
  fflush(stdout);
  fputs(prefix, stderr);
  vfprintf(stderr, fmt, args);
  fputc('\n', stderr);
}

int crn_tool_fail(crn_tool *t) {
  char text[MESSAGE_BYTES];
  cairn_last_error_text(text, sizeof text);
  leave_line(t);
  fflush(stdout);
  fprintf(stderr, "%s%s\n", t->error_prefix, text);
  return TOOL_FAILURE;
}

int crn_tool_result(crn_tool *t, cairn_status status) { return status == CAIRN_OK ? TOOL_OK : crn_tool_fail(t); }

int crn_tool_usage_error(crn_tool *t, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  print_line(t, t->error_prefix, fmt, args);
  va_end(args);
  if (t->command) fprintf(stderr, "usage: %s %s\nTry '%s --help' for the options.\n", t->program, t->command->synopsis, t->program);
  return TOOL_USAGE;
}

void crn_tool_warn(crn_tool *t, const char *fmt, ...) {
  char prefix[64];
  snprintf(prefix, sizeof prefix, "%s: warning: ", t->program);
  va_list args;
  va_start(args, fmt);
  print_line(t, prefix, fmt, args);
  va_end(args);
}

void crn_tool_note(crn_tool *t, const char *fmt, ...) {
  if (t->quiet) return;
  va_list args;
  va_start(args, fmt);
  print_line(t, "", fmt, args);
  va_end(args);
}

static bool hold_line(crn_tool *t, cairn_log_level level, const char *line) {
  crn_held_line *held = NULL;
  if (!t->hold_log || crn_arena_alloc(t->arena, sizeof *held, &held) != CAIRN_OK ||
      crn_arena_strndup(t->arena, line, strlen(line), &held->text) != CAIRN_OK)
    return false;
  held->level = level;
  held->next = NULL;
  *t->held_end = held;
  t->held_end = &held->next;
  return true;
}

static void log_line(void *user, cairn_log_level level, const char *line) {
  crn_tool *t = user;
  if (hold_line(t, level, line)) return;
  leave_line(t);
  fprintf(stderr, "%s: %s%s\n", t->program, level == CAIRN_LOG_WARNING ? "warning: " : "", line);
}

void crn_tool_hold_log(crn_tool *t) {
  t->hold_log = true;
  t->held = NULL;
  t->held_end = &t->held;
}

void crn_tool_release_log(crn_tool *t, cairn_status status) {
  t->hold_log = false;
  for (const crn_held_line *line = t->held; line; line = line->next) {
    const char *colon = strstr(line->text, ": ");
    const char *reason = colon ? colon + 2 : line->text;
    if (status == CAIRN_OK || !*reason || !strstr(cairn_last_error()->message, reason)) log_line(t, line->level, line->text);
  }
  t->held = NULL;
}

cairn_status crn_tool_open_context(crn_tool *t) {
  if (t->context) return CAIRN_OK;
  cairn_context_options options;
  cairn_context_options_initialize(&options);
  if (t->threads.given) options.n_threads = (int)t->threads.value;
  if (t->verbose && options.log_level < CAIRN_LOG_INFO) options.log_level = CAIRN_LOG_INFO;
  if (t->mute_log && !t->verbose) options.log_level = CAIRN_LOG_OFF;
  options.log = log_line;
  options.log_user = t;
  CRN_TRY(cairn_context_create(&options, &t->context));
  return t->trace ? cairn_trace_start(t->context) : CAIRN_OK;
}

int crn_tool_end_trace(crn_tool *t, int code) {
  if (!t->trace || !t->context) return code;
  if (cairn_trace_stop(t->context, t->trace) != CAIRN_OK) return crn_tool_fail(t);
  crn_tool_note(t, "trace written to %s", t->trace);
  return code;
}

cairn_status crn_tool_clear_cache(crn_tool *t, const char *name, const char *path) {
  int64_t n;
  uint64_t bytes;
  CRN_TRY(cairn_cache_remove(path, &n, &bytes));
  if (!t->quiet) printf("🗑️  Cleared specialization cache for %s (%lld component(s))\n", name, (long long)n);
  fflush(stdout);
  return CAIRN_OK;
}

int crn_tool_flush(crn_tool *t, int code) {
  if (fflush(stdout) == 0 && !ferror(stdout)) return code;
  fprintf(stderr, "%scannot write the output: %s\n", t->error_prefix, strerror(errno));
  return TOOL_FAILURE;
}

const char *crn_tool_size_text(double bytes, char *buffer, size_t capacity) {
  static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
  int unit = 0;
  while (bytes >= 1000 && unit < 4) {
    bytes /= 1000;
    unit++;
  }
  snprintf(buffer, capacity, unit == 0 || bytes >= 100 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
  return buffer;
}

double crn_tool_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
