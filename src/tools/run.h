/// The parts of cairn run: reading inputs and states, writing results, watching operations.
#ifndef CRN_TOOLS_RUN_H
#define CRN_TOOLS_RUN_H

#include "base/vec.h"
#include "cairn/model.h"
#include "import/safetensors.h"
#include "tools/tool.h"

typedef struct crn_run_options {
  const char *function, *component;
  const char *io, *out, *npy_dir;
  crn_option_integer steps;
  crn_option_list state_shapes;
  const char *device, *precision, *composites;
  bool strict_hash, frequent_reshapes, trace_ops, json;
  const char *dump;
} crn_run_options;

// --- inputs and states --------------------------------------------------------------------------------------------------

/// The arrays of a function, in its order.
typedef struct crn_run_arrays {
  cairn_named_array *items;
  int n;
} crn_run_arrays;

/// Everything --io holds. `file` NULL (no --io) stands for an empty file.
typedef struct crn_run_io {
  crn_tool *t;
  const cairn_function_info *info;
  crn_safetensors *file;
  const crn_run_options *options;
} crn_run_io;

/// Entries that belong to nothing are mentioned; one that looks like a misspelt state is refused, because the state would
/// silently start as zeros. Errors: INVALID_ARGUMENT.
cairn_status crn_run_check_names(const crn_run_io *io);
/// The dims of "NAME=2,1,8,64". False when `text` is not of that form.
bool crn_run_parse_shape(const char *text, int64_t *out_shape, int *out_rank);
/// Room for `n` arrays, all NULL.
cairn_status crn_run_arrays_create(crn_tool *t, const cairn_descriptor *descriptors, int n, crn_run_arrays *out_arrays);
void crn_run_arrays_release(crn_run_arrays *arrays);
/// Fills in the inputs of step `step`: `<name>.<step>` when the file has it, else `<name>`. It replaces
/// the arrays of the step before.
cairn_status crn_run_read_inputs(const crn_run_io *io, int64_t step, crn_run_arrays *inputs);
/// Fills in the initial states: `state.<name>`, else zeros.
cairn_status crn_run_read_states(const crn_run_io *io, crn_run_arrays *states);

// --- results ------------------------------------------------------------------------------------------------------------

/// What goes to --out, --npy-dir and the report, in the order it came. Keeps the arrays alive.
typedef struct crn_run_result {
  const char *name;  ///< as in the file: "logits", "logits.0", "state.keyCache"
  bool is_state;
  cairn_ndarray *array;
} crn_run_result;

typedef struct crn_run_results {
  crn_tool *t;
  CRN_VEC(crn_run_result) items;
} crn_run_results;

/// Adds an array (retained). `step` < 0 leaves the suffix out.
cairn_status crn_run_add_result(crn_run_results *results, const char *prefix, const char *name, int64_t step, cairn_ndarray *array);
void crn_run_results_release(crn_run_results *results);
cairn_status crn_run_write_file(const crn_run_results *results, const char *path);
cairn_status crn_run_write_npy(const crn_run_results *results, const char *directory);

typedef struct crn_run_timing {
  double load_s, prepare_s, run_s;
} crn_run_timing;

/// The report on stdout: a line an array, or a JSON document.
cairn_status crn_run_print_text(const crn_run_results *results);
cairn_status crn_run_print_json(const crn_run_results *results, cairn_function *function, int64_t steps, crn_run_timing timing);

// --- watching -------------------------------------------------------------------------------------------------------------

/// The state of --trace-ops and --dump-intermediates. Initialise with zeros and the first members.
typedef struct crn_run_watch {
  FILE *print;          ///< where lines go, NULL = nowhere
  const char *dump;     ///< directory, NULL = none
  bool many_steps;      ///< dumps go to DIR/<step>/
  int64_t step;         ///< of --steps
  int64_t n_ops;        ///< of this step
  cairn_status status;  ///< the first failure, with its text
  char message[1024];
} crn_run_watch;

/// For cairn_model_options.trace; `user` is a crn_run_watch.
void crn_run_watch_op(void *user, int64_t step, const char *op, const char *location, const cairn_ndarray *const *arrays, int n_arrays,
                      double seconds);
/// Begins a step. Errors: IO.
cairn_status crn_run_watch_step(crn_run_watch *watch, int64_t step);
/// The first failure while watching.
cairn_status crn_run_watch_status(const crn_run_watch *watch);

#endif
