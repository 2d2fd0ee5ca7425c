/// Models and functions from the inside.
#ifndef CRN_EXECUTE_INTERNAL_H
#define CRN_EXECUTE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/hash.h"
#include "cairn/model.h"
#include "execute/run.h"
#include "execute/widening.h"
#include "specialize/passes.h"

struct cairn_model {
  atomic_int references;
  cairn_context *context;
  cairn_asset *asset;  ///< NULL for a program built in memory
  /// Of the file of a program, "" = nothing that could be known again. `origin_path` is that file's.
  char hash[2 * CRN_SHA256_BYTES + 1];
  const char *origin_path;
  crn_program *program;
  cairn_model_options options;
  crn_arena arena;  ///< of the descriptors
  crn_weight_store weights;
  atomic_bool has_read_cache;
  atomic_bool has_ready_weights;  ///< from the cache, or of a compiled asset
  atomic_bool has_run;            ///< a run has ended well
  cairn_function_info *functions;
  const crn_graph **graphs;
  int n_functions;
};

struct crn_access;

struct cairn_function {
  atomic_int references;
  cairn_model *model;
  const cairn_function_info *info;
  crn_arena arena;  ///< of what options made of `info`
  crn_plan *plan;
  crn_trace trace;
  pthread_mutex_t lock;  ///< guards the idle list and the counters
  crn_workspace *idle;
  cairn_function_stats stats;
  bool warned_copy;
  int max_in_flight, n_in_flight;  ///< guarded by the lock of the context's work list; 0 = no bound
  crn_widening widening;
};

struct cairn_outputs {
  const cairn_allocator *allocator;
  int n, capacity;
  const char **names;      ///< borrowed from the function
  cairn_ndarray **arrays;  ///< NULL once taken
  cairn_function *function;
};

/// function.c
/// Checks what a run is given. `may_be_pending` allows inputs without an array: values that are still to come.
cairn_status crn_function_check_args(const cairn_function *f, const cairn_run_args *args, bool has_bag, bool may_be_pending);
cairn_status crn_function_check_type(const cairn_function *f, const char *kind, const cairn_descriptor *d, cairn_dtype dtype, int rank,
                                     const int64_t *shape);
/// Whether two arrays plainly share memory. NULL is allowed: an array that is still to come.
bool crn_arrays_overlap(const cairn_ndarray *a, const cairn_ndarray *b);
/// A run in parts. A workspace with inputs and states bound (which makes the states busy), …
cairn_status crn_function_begin(cairn_function *f, const cairn_run_args *args, crn_workspace **out_workspace);
/// … outputs from their slots into the views of `args` or into `bag`, …
cairn_status crn_function_collect(cairn_function *f, crn_workspace *w, const cairn_run_args *args, cairn_outputs *bag);
/// … and the workspace back to the function.
void crn_function_end(cairn_function *f, crn_workspace *w, bool is_finished);
/// A workspace for its memory alone.
cairn_status crn_function_take_workspace(cairn_function *f, crn_workspace **out_workspace);
void crn_function_return_workspace(cairn_function *f, crn_workspace *w);
cairn_status crn_function_create_outputs(cairn_function *f, cairn_outputs **out_outputs);
/// A run whose arguments were checked and whose order against other work was settled by the caller.
cairn_status crn_function_run_checked(cairn_function *f, const cairn_run_args *args, cairn_outputs **out_outputs);

/// host_run.c
/// Enters a run of the caller among the work of the context, waiting or refusing as `args` says, runs it, and leaves.
cairn_status crn_function_run_on_host(cairn_function *f, const cairn_run_args *args, cairn_outputs **out_outputs);
/// The same for `n` runs that go on together and count as one: `run` does them. Whether it waits is the first one's say. `accesses` has
/// room for every array of all.
cairn_status crn_function_run_together_on_host(cairn_function *f, const cairn_run_args *const *args, int n, struct crn_access *accesses,
                                               cairn_status (*run)(void *user), void *user);

#endif
