/// Sizes of a plan's slots as symbols: what is equal whatever the sizes of a run's inputs are.
#ifndef CRN_SPECIALIZE_SHAPES_H
#define CRN_SPECIALIZE_SHAPES_H

#include "base/vec.h"
#include "specialize/edit.h"

/// A number of a run: a constant below CRN_SYMBOL, else a symbol. Equal symbols stand for equal numbers.
typedef int64_t crn_sym;
#define CRN_SYMBOL ((int64_t)1 << 48)
static inline bool crn_sym_is_constant(crn_sym s) { return s < CRN_SYMBOL; }

typedef struct crn_slot_shape {
  int rank;
  int n_values;  ///< of a short vector of integers whose elements are known as symbols; -1 = not known
  crn_sym dims[CAIRN_MAX_RANK];
  crn_sym values[CAIRN_MAX_RANK];
} crn_slot_shape;

typedef struct crn_sym_expression {
  int op;
  crn_sym a, b;
  uint32_t next;  ///< in its bucket, index + 1
} crn_sym_expression;

enum { CRN_SYM_BUCKETS = 1024 };

typedef struct crn_shapes {
  const cairn_allocator *allocator;
  uint32_t n_slots;
  crn_slot_shape *slots;
  CRN_VEC(crn_sym_expression) expressions;  ///< symbol k is CRN_SYMBOL + k
  uint32_t buckets[CRN_SYM_BUCKETS];
} crn_shapes;

/// Follows the steps outside of bodies. Errors: OUT_OF_MEMORY.
cairn_status crn_shapes_create(const crn_plan *plan, const crn_plan_index *index, crn_shapes *out_shapes);
void crn_shapes_destroy(crn_shapes *shapes);
/// Whether both slots have the same dims in every run.
bool crn_shapes_equal(const crn_shapes *shapes, uint32_t a, uint32_t b);

#endif
