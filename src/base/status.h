/// Making and passing on failures. See include/cairn/status.h for the codes and the record.
#ifndef CRN_BASE_STATUS_H
#define CRN_BASE_STATUS_H

#include "cairn/status.h"

/// Records a failure on this thread and returns its code. `fmt` names the thing that is wrong and what would be accepted.
cairn_status crn_fail(cairn_status code, const char *file, int line, const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/// Adds one outer note to the record of this thread and returns `code` unchanged.
cairn_status crn_note(cairn_status code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/// Replaces the record of this thread by a failure that happened elsewhere (another thread, an event).
void crn_error_restore(cairn_status code, const char *message);

/// Forgets the last failure of this thread.
void crn_error_clear(void);

/// `return CRN_FAIL(INVALID_ARGUMENT, "input '%s' has rank %d, expected %d", ...)`
/// The comma shows the compiler that the value is the code: it then knows that results stay unset only on failure.
#define CRN_FAIL(code, ...) (crn_fail(CAIRN_##code, __FILE__, __LINE__, __VA_ARGS__), CAIRN_##code)

/// Refuses NULL for an argument of a public function: the first thing such a function does with its pointers. Functions that give no status
/// give nothing instead (0, false, NULL). tests/headers calls every one of them with NULL for each pointer.
#define CRN_REQUIRE(pointer) CRN_REQUIRE_NAMED(pointer, #pointer)

/// As CRN_REQUIRE where the header has another name for it.
#define CRN_REQUIRE_NAMED(pointer, name)                                                            \
  do {                                                                                              \
    if (!(pointer)) return CRN_FAIL(INVALID_ARGUMENT, "%s: '%s' must not be NULL", __func__, name); \
  } while (0)

/// As CRN_REQUIRE for the beginning of `count` things, of which there may be none.
#define CRN_REQUIRE_SOME(pointer, count)                                                                           \
  do {                                                                                                             \
    if (!(pointer) && (count))                                                                                     \
      return CRN_FAIL(INVALID_ARGUMENT, "%s: '%s' must not be NULL unless '%s' is 0", __func__, #pointer, #count); \
  } while (0)

/// Evaluates an expression of type cairn_status and returns it from the function when it failed.
#define CRN_TRY(expr)                                        \
  do {                                                       \
    cairn_status crn_try_status_ = (expr);                   \
    if (crn_try_status_ != CAIRN_OK) return crn_try_status_; \
  } while (0)

/// As CRN_TRY, adding a note to the record.
#define CRN_TRY_NOTE(expr, ...)                                                     \
  do {                                                                              \
    cairn_status crn_try_status_ = (expr);                                          \
    if (crn_try_status_ != CAIRN_OK) return crn_note(crn_try_status_, __VA_ARGS__); \
  } while (0)

/// As CRN_TRY for functions that hold resources: stores the status in `status` and jumps to `done`.
#define CRN_TRY_GOTO(expr)             \
  do {                                 \
    status = (expr);                   \
    if (status != CAIRN_OK) goto done; \
  } while (0)

#endif
