/// The context: allocator, worker threads and log sink shared by everything opened under it.
///
/// The library changes no signal handlers. A process with a limit on the size of files (RLIMIT_FSIZE) should ignore SIGXFSZ: what the
/// library writes then fails with IO, as on a full disk, and a cache is left out with a warning; the default action ends the process.
#ifndef CAIRN_CONTEXT_H
#define CAIRN_CONTEXT_H

#include <stddef.h>

#include "cairn/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Caller-provided memory. `alloc` returns `bytes` bytes aligned to `align` (a power of two, at least 16) or NULL.
/// `free` gets the size that was asked for. Thread: both are called from any thread at any time.
typedef struct cairn_allocator {
  void *self;
  void *(*alloc)(void *self, size_t bytes, size_t align);
  void (*free)(void *self, void *pointer, size_t bytes);
} cairn_allocator;

typedef enum cairn_log_level { CAIRN_LOG_OFF = 0, CAIRN_LOG_WARNING = 1, CAIRN_LOG_INFO = 2, CAIRN_LOG_DEBUG = 3 } cairn_log_level;

/// Receives one line (no newline). Thread: called from any thread, possibly at once from several.
typedef void (*cairn_log_fn)(void *user, cairn_log_level level, const char *line);

typedef struct cairn_context_options {
  const cairn_allocator *allocator;  ///< copied; NULL = malloc
  int n_threads;                     ///< workers that run one function; 0 = CAIRN_THREADS, else the usable cores
  cairn_log_level log_level;         ///< lines above this level are not made
  cairn_log_fn log;                  ///< NULL = no log (warnings are still kept with the objects they concern)
  void *log_user;
} cairn_context_options;

/// Owner: shared and counted. Thread: safe.
typedef struct cairn_context cairn_context;

/// Fills `options` with the defaults (CAIRN_LOG decides the level when set: off, warning, info, debug).
CAIRN_API void cairn_context_options_initialize(cairn_context_options *options);

/// Creates a context with one reference. `options` NULL = defaults.
/// Errors: INVALID_ARGUMENT (negative thread count, half an allocator), OUT_OF_MEMORY.
CAIRN_API cairn_status cairn_context_create(const cairn_context_options *options, cairn_context **out_context);
CAIRN_API void cairn_context_retain(cairn_context *context);
/// Drops one reference; NULL is allowed.
CAIRN_API void cairn_context_release(cairn_context *context);

/// The number of workers the context runs functions with (at least 1).
CAIRN_API int cairn_context_threads(const cairn_context *context);

/// Library version, "major.minor.patch".
CAIRN_API const char *cairn_version(void);

#ifdef __cplusplus
}
#endif
#endif
