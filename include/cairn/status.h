/// Status codes and the thread-local error record.
///
/// Every fallible cairn call returns a `cairn_status`: 0 is success, every other value is one of the canonical codes
/// below. The text of the failure (what was wrong, what would be accepted, where it was noticed) is kept in a record of
/// the calling thread and read with cairn_last_error(). The library never aborts, never prints and never exits.
#ifndef CAIRN_STATUS_H
#define CAIRN_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(CAIRN_BUILDING_SHARED) || defined(CAIRN_USING_SHARED) || defined(__GNUC__)
#define CAIRN_API __attribute__((visibility("default")))
#else
#define CAIRN_API
#endif

/// X(NAME, value, "text"). Values are part of the ABI and never change.
#define CAIRN_STATUS_LIST(X)                        \
  X(OK, 0, "ok")                                    \
  X(CANCELLED, 1, "cancelled")                      \
  X(INVALID_ARGUMENT, 2, "invalid argument")        \
  X(NOT_FOUND, 3, "not found")                      \
  X(ALREADY_EXISTS, 4, "already exists")            \
  X(OUT_OF_RANGE, 5, "out of range")                \
  X(UNSUPPORTED, 6, "unsupported")                  \
  X(CORRUPT, 7, "corrupt data")                     \
  X(INCOMPATIBLE, 8, "incompatible")                \
  X(OUT_OF_MEMORY, 9, "out of memory")              \
  X(FAILED_PRECONDITION, 10, "failed precondition") \
  X(BUSY, 11, "busy")                               \
  X(CONTEXT_FULL, 12, "context full")               \
  X(IO, 13, "input/output error")                   \
  X(INTERNAL, 14, "internal error")

typedef enum cairn_status {
#define CAIRN_STATUS_ENUM(name, value, text) CAIRN_##name = value,
  CAIRN_STATUS_LIST(CAIRN_STATUS_ENUM)
#undef CAIRN_STATUS_ENUM
} cairn_status;

/// The last failure of a thread. `message` is never NULL. `context` holds up to 8 notes added while the failure
/// travelled outwards, innermost first.
/// Owner: the thread; valid until the next failing cairn call on the same thread.
typedef struct cairn_error {
  cairn_status code;
  const char *message;
  const char *file;  ///< source file that noticed the failure, relative to the source tree
  int line;
  int n_context;
  const char *const *context;
} cairn_error;

/// Returns the canonical text of a code ("unknown status" for a value that is none).
CAIRN_API const char *cairn_status_text(cairn_status code);

/// Returns the canonical upper-case name of a code, e.g. "INVALID_ARGUMENT".
CAIRN_API const char *cairn_status_name(cairn_status code);

/// Returns the record of the last failure on this thread (code OK and an empty message when there was none).
CAIRN_API const cairn_error *cairn_last_error(void);

/// Writes "message (context; context)" of the last failure into `buffer` (always NUL-terminated) and returns the number
/// of bytes the full text has.
CAIRN_API int cairn_last_error_text(char *buffer, int capacity);

#ifdef __cplusplus
}
#endif
#endif
