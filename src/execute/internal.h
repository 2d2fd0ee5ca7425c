/// Models and functions from the inside.
#ifndef CRN_EXECUTE_INTERNAL_H
#define CRN_EXECUTE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "cairn/model.h"
#include "execute/run.h"

struct cairn_model {
  atomic_int references;
  cairn_context *context;
  cairn_asset *asset;  ///< NULL for a program built in memory
  crn_program *program;
  cairn_model_options options;
  crn_arena arena;  ///< of the descriptors
  cairn_function_info *functions;
  const crn_graph **graphs;
  int n_functions;
};

struct cairn_function {
  atomic_int references;
  cairn_model *model;
  const cairn_function_info *info;
  crn_plan *plan;
  crn_trace trace;
  pthread_mutex_t lock;  ///< guards the idle list and the counters
  crn_workspace *idle;
  cairn_function_stats stats;
  bool warned_copy;
};

struct cairn_outputs {
  const cairn_allocator *allocator;
  int n, capacity;
  const char **names;      ///< borrowed from the function
  cairn_ndarray **arrays;  ///< NULL once taken
  cairn_function *function;
};

#endif
