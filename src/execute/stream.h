/// Streams and values from the inside. Everything marked (L) is guarded by the lock of the context's work list.
#ifndef CRN_EXECUTE_STREAM_H
#define CRN_EXECUTE_STREAM_H

#include "cairn/stream.h"
#include "execute/internal.h"
#include "execute/work.h"

/// A callback of a value. Once the value is done, whoever finished it calls and frees these.
typedef struct crn_callback {
  struct crn_callback *next;
  cairn_value_completed_fn fn;
  void *user;
  cairn_value *value;  ///< retained while the callback waits to be called
} crn_callback;

struct cairn_value {
  atomic_int references;
  cairn_context *context;
  const cairn_descriptor *type;              ///< what is known of the array before it exists; NULL = nothing
  cairn_function *function;                  ///< keeps `type` alive
  cairn_ndarray *view;                       ///< memory known from the start: the output has a view
  bool is_done;                              ///< (L)
  cairn_status status;                       ///< (L)
  crn_failure *failure;                      ///< (L)
  cairn_ndarray *array;                      ///< (L) read-only; immutable once done
  crn_work *producer;                        ///< (L) while not done
  crn_callback *callbacks, **callbacks_end;  ///< (L)
};

/// A queued piece of work.
typedef struct crn_job {
  crn_work work;  ///< first, so that one is the other
  cairn_context *context;
  cairn_function *function;  ///< NULL for calls and marks
  char *name;                ///< of a call
  size_t bytes;              ///< of the block: this and the lists behind it
  cairn_stream_call_fn call;
  void *user;
  void (*release)(void *user);
  int64_t last_rows;
  int n_inputs, n_targets, n_views, n_outputs;
  cairn_named_array *inputs;  ///< arrays of those given as values are filled in before the work is done
  cairn_value **input_values;
  cairn_named_array *targets, *views;
  cairn_value **outputs;
  cairn_ndarray **results;  ///< read-only arrays of the outputs, between the run and the end
} crn_job;

struct cairn_stream {
  cairn_context *context;
  cairn_stream *next_in_context;  ///< (L)
  cairn_stream_options options;
  pthread_cond_t wake;  ///< for workers
  pthread_t *threads;
  int n_threads;
  bool is_ending;          ///< (L)
  int n_works, n_calling;  ///< (L) works not done; threads that call callbacks of cancelled ones
  crn_work *first, *last;  ///< (L)
  cairn_status status;     ///< (L) the first failure since the last wait
  crn_failure *failure;    ///< (L)
  int n_named;
};

/// value.c
cairn_status crn_value_create_pending(cairn_context *context, cairn_value **out_value);
/// (L) Ends the value, taking `array` over and moving its callbacks to the end of `*end`.
void crn_value_complete(cairn_value *value, cairn_status status, crn_failure *failure, cairn_ndarray *array, crn_callback ***end);
/// Calls and frees them, in order. Without the lock.
void crn_callbacks_call(cairn_context *context, crn_callback *first);

/// job.c
typedef struct crn_job_size {
  int n_inputs, n_targets, n_views, n_outputs;
  const char *name;  ///< of a call; NULL = it has none
} crn_job_size;
/// A job with lists of these sizes. `out_job` is freed by crn_job_free.
cairn_status crn_job_create(cairn_context *context, const crn_job_size *size, crn_job **out_job);
void crn_job_free(crn_job *job);
/// Frees a chain of dead work. Without the lock: it may release the caller's memory.
void crn_jobs_free(crn_work *dead);
/// Fills in what a run of a function is given, after checking it.
cairn_status crn_job_set_function(crn_job *job, cairn_function *function, const cairn_encode_args *args);
cairn_status crn_job_set_call(crn_job *job, const cairn_call_args *args);
/// (L) Describes the memory it uses, as far as it exists.
void crn_job_set_accesses(crn_job *job);
/// Does the work. Without the lock.
cairn_status crn_job_run(crn_job *job);
const char *crn_job_name(const crn_job *job);

/// stream.c
/// The failure of work that is cancelled.
crn_failure *crn_stream_cancellation(cairn_context *context);
/// (L) Cancels one work that has not started. `failure` is that of the cancellation.
void crn_stream_cancel_work(crn_work *work, crn_failure *failure, crn_callback ***end, crn_work **dead);
/// Calls callbacks of cancelled work, which `stream` waits for, and frees dead work.
void crn_stream_end_cancel(cairn_stream *stream, crn_callback *callbacks, crn_work *dead);

#endif
