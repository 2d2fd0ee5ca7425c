/// Streams: queued work that runs behind the caller's back, ordered by the memory and the values it reads and writes.
///
/// `cairn_stream_encode` queues a run and returns at once. Its results are values: they can be waited for, and given to
/// later work before they exist. Work waits for earlier work only where it must:
///   - for the values it takes;
///   - for earlier work that writes memory it reads (inputs, states), and for earlier work that reads or writes memory it
///     writes (states, output views). Memory counts, not the handle: two arrays over one block are one thing.
/// All streams of a context and all plain runs (cairn_function_run) of its functions are ordered against each other by
/// that rule; what has nothing in common may overlap. States and output views are the targets that are changed in place:
/// a target is an array, made from a shape, from a descriptor, or around the caller's own memory.
///
/// Failures travel with the data. Work that takes the value of failed work, or reads memory that failed work should have
/// written, is not run; it fails with the same code and message. So it goes with all that depends on it, whether it was
/// queued before or after the failure, until cairn_stream_wait on the stream of the failed work has reported it, or
/// other work has written the memory anew through an output view.
///
/// Callbacks and queued calls run on a thread of the library. They may queue work and register callbacks, but nothing may
/// be waited for in them (FAILED_PRECONDITION), and no stream may be destroyed.
#ifndef CAIRN_STREAM_H
#define CAIRN_STREAM_H

#include "cairn/model.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- values -----------------------------------------------------------------------------------------------------------

/// An array that may not exist yet. Immutable once produced. Owner: shared and counted. Thread: safe. May outlive the
/// stream that makes it.
typedef struct cairn_value cairn_value;

/// A value that exists: a read-only view of `array`, whose elements must not change while work uses the value, except by
/// work that is queued later. Errors: OUT_OF_MEMORY.
CAIRN_API cairn_status cairn_value_create(cairn_ndarray *array, cairn_value **out_value);
CAIRN_API void cairn_value_retain(cairn_value *value);
CAIRN_API void cairn_value_release(cairn_value *value);

/// Whether the value was produced, or its work failed or was cancelled.
CAIRN_API bool cairn_value_is_done(const cairn_value *value);
/// Waits. Gives OK, or the failure of the work with its record (message and context) as this thread's last error.
/// Errors: those of the work, CANCELLED, FAILED_PRECONDITION (waiting inside of a callback).
CAIRN_API cairn_status cairn_value_wait(cairn_value *value);
/// Waits and gives a reference of the array, read-only and without a copy. A value of cairn_stream_mark, and one of work
/// that makes no array, has none: NOT_FOUND. Errors: as cairn_value_wait.
CAIRN_API cairn_status cairn_value_array(cairn_value *value, cairn_ndarray **out_array);

/// Called once when a value is done. `array` is borrowed and NULL on failure, whose record is then the last error of the
/// calling thread.
typedef void (*cairn_value_completed_fn)(void *user, cairn_status status, cairn_ndarray *array);
/// Calls `completed` when the value is done: on a thread of the library, or here and now when it is done already. The
/// callbacks of one value are called in the order they were given. Errors: OUT_OF_MEMORY.
CAIRN_API cairn_status cairn_value_on_completed(cairn_value *value, cairn_value_completed_fn completed, void *user);
/// Cancels the work that makes the value, if it has not started. Errors: FAILED_PRECONDITION when it has, or is done.
CAIRN_API cairn_status cairn_value_cancel(cairn_value *value);

// --- streams ----------------------------------------------------------------------------------------------------------

/// A queue with its own worker threads. Owner: unique. Thread: safe, except that destroying it ends its use.
typedef struct cairn_stream cairn_stream;

typedef struct cairn_stream_options {
  int max_queued;       ///< unfinished work the stream may hold, 1 or more; 0 = 64
  bool busy_when_full;  ///< queuing into a full stream gives BUSY instead of waiting for room (inside callbacks it always does)
  int n_workers;        ///< works of the stream that may run at once, 1 to 64; 0 = 1
} cairn_stream_options;

/// `options` NULL = defaults. Errors: INVALID_ARGUMENT, OUT_OF_MEMORY (a thread that cannot be started, too).
CAIRN_API cairn_status cairn_stream_create(cairn_context *context, const cairn_stream_options *options, cairn_stream **out_stream);
/// Cancels what has not started, waits for what runs and for its callbacks, and ends the workers. NULL is allowed.
CAIRN_API void cairn_stream_destroy(cairn_stream *stream);

/// One input: exactly one of `array` and `value` is set. The elements of an array must stay as they are until the work is
/// done, except for changes by work that is queued later.
typedef struct cairn_stream_input {
  const char *name;
  cairn_ndarray *array;
  cairn_value *value;
} cairn_stream_input;

/// What one queued run is given. The arrays and values are kept until the work is done; names and lists are borrowed for
/// the call.
typedef struct cairn_encode_args {
  const cairn_stream_input *inputs;  ///< every input, in any order
  int n_inputs;
  const cairn_named_array *states;  ///< every state, in any order; changed in place
  int n_states;
  const cairn_named_array *views;  ///< outputs to be written into the caller's arrays
  int n_views;
  int64_t last_rows;  ///< as in cairn_run_args
} cairn_encode_args;

/// Queues a run of `function`. `out_values` NULL, or room for one value per output in the order of
/// cairn_function_describe, each owned by the caller; the value of an output with a view is that view, which later work
/// may write again. The function must belong to the context of the stream.
/// Errors found here: INVALID_ARGUMENT as cairn_function_run (the shape of a value that does not exist yet is checked when it
/// does), BUSY, OUT_OF_MEMORY. Errors of the run itself are those of its values. On failure nothing is queued.
CAIRN_API cairn_status cairn_stream_encode(cairn_stream *stream, cairn_function *function, const cairn_encode_args *args,
                                           cairn_value **out_values);

/// The caller's own code as queued work (to sample a token, to convert a picture): gets the inputs in the order they were
/// given, may change the targets, and sets each of the `n_outputs` arrays, giving its reference away. A failure is that
/// of the work: cairn codes, with a message when a cairn call made it.
typedef cairn_status (*cairn_stream_call_fn)(void *user, const cairn_named_array *inputs, int n_inputs, const cairn_named_array *targets,
                                             int n_targets, cairn_ndarray **out_arrays);

typedef struct cairn_call_args {
  const char *name;  ///< for messages and traces; copied
  cairn_stream_call_fn call;
  void *user;
  void (*release)(void *user);       ///< called once when `user` is no longer needed, also when the work never runs; may be NULL
  const cairn_stream_input *inputs;  ///< names are borrowed until the work is done
  int n_inputs;
  const cairn_named_array *targets;  ///< read and changed in place, as states are
  int n_targets;
  int n_outputs;
} cairn_call_args;

/// Queues a call. `out_values` NULL, or room for `n_outputs` values.
/// Errors: INVALID_ARGUMENT, BUSY, OUT_OF_MEMORY; then `release` is not called.
CAIRN_API cairn_status cairn_stream_encode_call(cairn_stream *stream, const cairn_call_args *args, cairn_value **out_values);

/// Queues a copy of `array` as it is after all earlier work on it: an immutable value of a state at that point.
CAIRN_API cairn_status cairn_stream_encode_snapshot(cairn_stream *stream, cairn_ndarray *array, cairn_value **out_value);

/// The end of what is queued so far: a value (without an array) that is done after all earlier work of the stream and all
/// callbacks of it. It never fails because that work did.
CAIRN_API cairn_status cairn_stream_mark(cairn_stream *stream, cairn_value **out_value);

/// Waits until all work that was queued on the stream so far is done, callbacks too. Gives the first failure since the
/// last wait (CANCELLED after a cancellation) with its record; with that, failures of this stream are over: later work may
/// use the memory again. Errors: those of the work, FAILED_PRECONDITION (waiting inside of a callback).
CAIRN_API cairn_status cairn_stream_wait(cairn_stream *stream);
/// Cancels all work of the stream that has not started: its values fail with CANCELLED, callbacks are called here. What
/// runs is not stopped. Returns how many works were cancelled.
CAIRN_API int cairn_stream_cancel(cairn_stream *stream);
/// Works that are not done.
CAIRN_API int cairn_stream_pending(const cairn_stream *stream);

/// Waits until no queued work and no run uses the memory of `array`: the host may then change it. Errors:
/// FAILED_PRECONDITION (waiting inside of a callback).
CAIRN_API cairn_status cairn_ndarray_wait_idle(cairn_ndarray *array);

#ifdef __cplusplus
}
#endif
#endif
