/// Models and functions: an asset made ready to run on this machine, and calls of its functions.
///
/// A function takes named inputs, gives named outputs and keeps named states. States are owned by the caller, mandatory
/// on every run, and changed in place.
#ifndef CAIRN_MODEL_H
#define CAIRN_MODEL_H

#include "cairn/asset.h"

#ifdef __cplusplus
extern "C" {
#endif

/// How composites (rms_norm, rope, scaled_dot_product_attention, …) are computed.
typedef enum cairn_composites {
  CAIRN_COMPOSITES_DEFAULT = 0,  ///< CAIRN_COMPOSITES of the environment, else fast
  CAIRN_COMPOSITES_FAST = 1,     ///< by a direct kernel where there is one
  CAIRN_COMPOSITES_BODY = 2      ///< always by the body stored in the asset
} cairn_composites;

/// How exact products with constant matrices are. What a mode cannot do faster it does exactly.
typedef enum cairn_precision {
  CAIRN_PRECISION_DEFAULT = 0,  ///< exact
  CAIRN_PRECISION_EXACT = 1,    ///< sums in f32 in a fixed order: bits depend neither on batch, chunk nor threads
  CAIRN_PRECISION_BF16 = 2,     ///< the left operand is rounded to bf16
  CAIRN_PRECISION_INT8 = 3,     ///< with quantised weights the left operand is rounded to 8 bits in groups of 32
  CAIRN_PRECISION_AUTO = 4      ///< int8 for functions with many quantised weights, exact for others
} cairn_precision;
/// "default", "exact", "bf16", "int8", "auto".
CAIRN_API const char *cairn_precision_text(cairn_precision precision);

/// What a model is prepared for. A device that this build has no kernels for is refused, never replaced.
typedef enum cairn_device {
  CAIRN_DEVICE_DEFAULT = 0,  ///< the best there is: the CPU
  CAIRN_DEVICE_CPU = 1,
  CAIRN_DEVICE_GPU = 2,
  CAIRN_DEVICE_NEURAL_ENGINE = 3
} cairn_device;
/// "default", "cpu", "gpu", "neural-engine".
CAIRN_API const char *cairn_device_text(cairn_device device);

typedef struct cairn_model_options {
  cairn_composites composites;
  cairn_precision precision;
  cairn_device device;
  /// Says that shapes change from run to run. Plans have open shapes here with and without it, so that no shape ever makes a function be
  /// prepared again; like every option of a specialization it gives the model a cache entry of its own. For a function whose shapes
  /// are all fixed it is a warning.
  bool expect_frequent_reshapes;
  bool strict_hash;  ///< a wrong `main.hash` is an error
  /// Runs of each function, plain or queued, that may go on at once; 0 = no bound. Each takes a workspace of its own, so this
  /// bounds memory. Further queued work waits; further plain runs get BUSY, or wait as cairn_run_args says.
  int max_in_flight;
  bool no_cache;  ///< neither read nor write packed weights in the cache (see cairn/specialize.h)
  /// Reports long work: `done` of `total` steps of `phase` ("load", "prepare"). May be NULL.
  void (*progress)(void *user, const char *phase, int64_t done, int64_t total);
  void *progress_user;
  /// Sees every executed operation and its results (CAIRN_DTYPE_NONE results are left out). May be NULL. `op` is
  /// "coreai.add" or a composite's name, `arrays` its results, `seconds` the time it took. Called on the running thread.
  void (*trace)(void *user, int64_t step, const char *op, const char *location, const cairn_ndarray *const *arrays, int n_arrays,
                double seconds);
  void *trace_user;
} cairn_model_options;

/// Owner: shared and counted. Thread: safe.
typedef struct cairn_model cairn_model;
/// One entrypoint of a model. Keeps its model alive. Owner: shared and counted. Thread: safe; runs may go on at once.
typedef struct cairn_function cairn_function;

/// Opens the asset at `path` and reads its program. `options` NULL = defaults.
/// Errors: as cairn_asset_open; UNSUPPORTED naming a device that this build does not have, or an operation that is not known. An operation
/// that is known but cannot run is refused by cairn_model_function, for the functions that use it.
CAIRN_API cairn_status cairn_model_load(cairn_context *context, const char *path, const cairn_model_options *options,
                                        cairn_model **out_model);
/// As cairn_model_load for an opened asset (which the model keeps).
CAIRN_API cairn_status cairn_model_create(cairn_asset *asset, const cairn_model_options *options, cairn_model **out_model);
CAIRN_API void cairn_model_retain(cairn_model *model);
CAIRN_API void cairn_model_release(cairn_model *model);

CAIRN_API int cairn_model_function_count(const cairn_model *model);
CAIRN_API const cairn_function_info *cairn_model_function_info(const cairn_model *model, int i);

/// Prepares a function: constants are folded and compressed weights expanded once.
/// Errors: NOT_FOUND (naming the functions there are), UNSUPPORTED naming the operation that cannot run, CORRUPT,
/// OUT_OF_MEMORY.
CAIRN_API cairn_status cairn_model_function(cairn_model *model, const char *name, cairn_function **out_function);

/// An input and the output that gives back what became of it.
typedef struct cairn_carried {
  const char *input, *output;
} cairn_carried;

/// How a function is to be offered where the caller knows more of it than its program says. Zeroed = as the program says.
typedef struct cairn_function_options {
  /// Each pair is one state, named like the input, and neither an input nor an output any more: the caller gives an array once, and a run
  /// changes it in place where only a part of it changes. Input and output must have one type.
  const cairn_carried *carried;
  int n_carried;
  /// Inputs of the name and type of an output of a function of this model that takes nothing are that output for good: constants, which
  /// are prepared as all others are (folded, packed), and no inputs any more.
  bool take_constants;
} cairn_function_options;

/// As cairn_model_function; `options` NULL = defaults. cairn_function_describe tells what inputs, outputs and states are left.
/// Errors: INVALID_ARGUMENT naming what cannot be carried; else those of cairn_model_function.
CAIRN_API cairn_status cairn_model_function_with(cairn_model *model, const char *name, const cairn_function_options *options,
                                                 cairn_function **out_function);
CAIRN_API void cairn_function_retain(cairn_function *function);
CAIRN_API void cairn_function_release(cairn_function *function);
CAIRN_API const cairn_function_info *cairn_function_describe(const cairn_function *function);
/// The plan as text, a line a step: kernels, precision, bytes, and which states are updated in place. Writes up to `capacity` bytes (no
/// NUL) and stores the full size.
CAIRN_API cairn_status cairn_function_print_plan(const cairn_function *function, char *out_text, size_t capacity, size_t *out_bytes);
/// The operation that would copy a state out of its pages on every run if it were given a segmented array (cairn/ndarray.h), or NULL: all
/// of them work on pages. Owner: borrowed from the function. Thread: safe. Errors: NOT_FOUND, OUT_OF_MEMORY.
CAIRN_API cairn_status cairn_function_find_page_copier(const cairn_function *function, const char *state, const char **out_operation);
/// The precision the function really runs with: exact, bf16 or int8.
CAIRN_API cairn_precision cairn_function_get_precision(const cairn_function *function);
/// The device the function really runs on; never CAIRN_DEVICE_DEFAULT.
CAIRN_API cairn_device cairn_function_get_device(const cairn_function *function);
/// Changes the bound that cairn_model_options.max_in_flight set; 0 = none. Runs that go on are not stopped. Thread: safe.
/// Errors: INVALID_ARGUMENT (negative).
CAIRN_API cairn_status cairn_function_set_max_in_flight(cairn_function *function, int max_in_flight);
/// The descriptor of an input, output or state by name; NULL when there is none.
CAIRN_API const cairn_descriptor *cairn_function_input(const cairn_function *function, const char *name);
CAIRN_API const cairn_descriptor *cairn_function_output(const cairn_function *function, const char *name);
CAIRN_API const cairn_descriptor *cairn_function_state(const cairn_function *function, const char *name);

typedef struct cairn_named_array {
  const char *name;
  cairn_ndarray *array;
} cairn_named_array;

/// What one run is given. Arrays are borrowed for the call.
typedef struct cairn_run_args {
  const cairn_named_array *inputs;  ///< every input, in any order
  int n_inputs;
  const cairn_named_array *states;  ///< every state, in any order; changed in place
  int n_states;
  const cairn_named_array *outputs;  ///< outputs to be written into the caller's arrays (views may be strided)
  int n_outputs;
  /// Only the last so many rows (entries of the last dimension but one) of the outputs in which that dimension is dynamic; 0 = all.
  /// Where possible the other rows are not computed.
  int64_t last_rows;
  /// Rows of products with packed weights get the bits they have in a run of one row, in every precision. Without it BF16 and INT8 may
  /// take faster kernels for many rows, which round in another way. For few rows, whose results are going to be compared with single ones.
  bool rows_as_one;
  /// Wait for what is in use (a state of another run, memory that queued work reads or writes, the function's bound of runs in
  /// flight) instead of giving BUSY. The run takes its turn behind the work that was there before. Inside of a callback or a queued call it
  /// still gives BUSY: what it would wait for may be waiting for the caller.
  bool wait;
  /// Rows of attention whose mask hides every position are padding that nobody looks at. Without it they are computed as the program says:
  /// over all positions of a cache, however few of these the other rows see.
  bool blind_rows_unused;
} cairn_run_args;

/// The outputs of a run that no view was given for. Owner: unique.
typedef struct cairn_outputs cairn_outputs;

/// Runs the function. `out_outputs` may be NULL when every output has a view.
/// Errors: INVALID_ARGUMENT naming the array that is missing, unknown, given twice, or of the wrong type or shape, and
/// what is expected; BUSY when a state array is in use by another run, an array
/// is in conflict with queued work (see cairn/stream.h), or the function's bound of runs in flight is reached; the failure of
/// queued work that should have written memory the run reads; UNSUPPORTED; OUT_OF_MEMORY. A run that fails after
/// it started may have changed states; the message says so.
CAIRN_API cairn_status cairn_function_run(cairn_function *function, const cairn_run_args *args, cairn_outputs **out_outputs);

/// Runs the function `n` times at once, each time with arguments, states and outputs of its own. Weights are read once for all runs, so
/// that eight runs of a few tokens cost little more than one; and every run gives the bits it gives alone, in every precision.
/// The runs may have different shapes. `out_outputs` (n entries, each owned) may be NULL when every output has a view; `out_statuses` (n
/// entries) may be NULL. A run that fails does not disturb the others: its status tells, the call gives the first failure there was, and
/// the outputs of the others are there. With a `trace` in the options of the model the runs go one after the other.
/// Errors: as cairn_function_run; INVALID_ARGUMENT also for runs that share a state or an output with another; BUSY for all when anything
/// any of them uses is in use (nothing is run then, or it waits when the first one's `wait` is set). A batch counts as one run for the
/// bound of runs in flight, and takes a workspace for each. When nothing changes from call to call, it allocates nothing.
CAIRN_API cairn_status cairn_function_run_batch(cairn_function *function, const cairn_run_args *args, int n, cairn_outputs **out_outputs,
                                                cairn_status *out_statuses);

CAIRN_API int cairn_outputs_count(const cairn_outputs *outputs);
CAIRN_API const char *cairn_outputs_name(const cairn_outputs *outputs, int i);
/// Moves an output out of the bag: the caller owns a reference. A second take is NOT_FOUND.
CAIRN_API cairn_status cairn_outputs_take(cairn_outputs *outputs, const char *name, cairn_ndarray **out_array);
CAIRN_API void cairn_outputs_destroy(cairn_outputs *outputs);

// --- states in one object ---------------------------------------------------------------------------------------------

/// All states of a function, zeroed. Owner: unique. Thread: one user at a time.
typedef struct cairn_state cairn_state;

/// A shape for a state with dynamic dims.
typedef struct cairn_state_shape {
  const char *name;
  const int64_t *shape;
  int rank;
} cairn_state_shape;

/// Creates every state of the function; `shapes` resolve the dynamic ones (others may be left out).
CAIRN_API cairn_status cairn_state_create(cairn_function *function, const cairn_state_shape *shapes, int n_shapes, cairn_state **out_state);
/// The arrays, in the function's order, ready for cairn_run_args. Owner: borrowed.
CAIRN_API const cairn_named_array *cairn_state_arrays(const cairn_state *state, int *out_n);
/// Zeroes every state.
CAIRN_API cairn_status cairn_state_reset(cairn_state *state);
CAIRN_API void cairn_state_destroy(cairn_state *state);

// --- counters ----------------------------------------------------------------------------------------------------------

/// What the runs of a function did so far, summed. For tests and for `cairn inspect`.
typedef struct cairn_function_stats {
  int64_t n_runs;
  int64_t state_bytes_written;    ///< by in-place updates and by whole writes
  int64_t state_bytes_copied;     ///< of that, copies of whole states because an in-place update could not be proven safe
  int64_t state_bytes_gathered;   ///< copied out of segmented arrays for operations that take no pages
  int64_t workspace_allocations;  ///< blocks obtained from the allocator by runs; constant in the steady state
  int64_t folded_bytes;           ///< memory held by folded constants and expanded weights
  int64_t weight_bytes;           ///< of packed weights that one row of an input reads (of stacked experts those chosen)
  bool weights_were_ready;        ///< packed weights came from the cache or a compiled asset
} cairn_function_stats;
CAIRN_API void cairn_function_get_stats(const cairn_function *function, cairn_function_stats *out_stats);

#ifdef __cplusplus
}
#endif
#endif
