/// The program in memory: graphs of ops on values, as the asset stores them. Nothing is lowered here.
///
/// Everything lives in the program's arena; constants point into the mapped asset (or into memory the program keeps
/// alive). A finished program is immutable and may be read from any thread.
#ifndef CRN_PROGRAM_IR_H
#define CRN_PROGRAM_IR_H

#include "base/arena.h"
#include "base/vec.h"
#include "program/ops.h"
#include "tensor/tensor.h"

typedef enum crn_type_kind { CRN_TYPE_TENSOR = 0, CRN_TYPE_HANDLE, CRN_TYPE_TOKEN, CRN_TYPE_IMAGE, CRN_TYPE_OPAQUE } crn_type_kind;

/// The type of a value. For a handle, dtype and dims are those of the tensor it holds.
typedef struct crn_type {
  crn_type_kind kind;
  cairn_dtype dtype;
  int rank;
  int64_t dims[CAIRN_MAX_RANK];        ///< -1 = dynamic
  int64_t interleave[CAIRN_MAX_RANK];  ///< all 1 when the layout is plain
  int64_t alignment[CAIRN_MAX_RANK + 1];
  bool has_layout;    ///< carries hardware layout constraints
  bool is_sparse;     ///< bitmask-sparse encoding
  int64_t n_nonzero;  ///< of a sparse type, -1 = unknown
  uint32_t image_format, image_height, image_width;
} crn_type;

typedef struct crn_op crn_op;
typedef struct crn_block crn_block;
typedef struct crn_graph crn_graph;
typedef struct crn_program crn_program;

typedef struct crn_value {
  const crn_type *type;
  crn_op *def;     ///< NULL for a block argument
  uint32_t index;  ///< position among the results or arguments
  uint32_t id;     ///< unique within the graph, dense from 0
  uint32_t n_uses;
  const char *name;  ///< of a graph's input or state, else NULL
} crn_value;

// --- attributes -----------------------------------------------------------------------------------------------------

typedef enum crn_attr_kind {
  CRN_ATTR_NONE,
  CRN_ATTR_INT,
  CRN_ATTR_FLOAT,
  CRN_ATTR_BOOL,
  CRN_ATTR_STRING,
  CRN_ATTR_LIST,
  CRN_ATTR_DICT
} crn_attr_kind;

/// A free-form attribute (of a composite's declaration).
typedef struct crn_attr {
  crn_attr_kind kind;
  const char *key;  ///< inside a dictionary
  union {
    int64_t i;
    double f;
    const char *s;
    struct {
      const struct crn_attr *items;
      uint32_t n;
    } list;
  };
} crn_attr;

/// Looks up a key of a dictionary attribute; NULL when absent or `dict` is none.
const crn_attr *crn_attr_find(const crn_attr *dict, const char *key);
/// A number or boolean of a dictionary with a default; CORRUPT when it has another kind.
cairn_status crn_attr_get_int(const crn_attr *dict, const char *key, int64_t fallback, int64_t *out);
cairn_status crn_attr_get_float(const crn_attr *dict, const char *key, double fallback, double *out);

/// A constant's data. A splat repeats one element: its tensor has strides 0.
typedef struct crn_constant {
  crn_tensor tensor;
  bool is_splat;
  const char *name;  ///< resource key, NULL for inline data
  size_t stored_bytes;
} crn_constant;

typedef enum crn_padding { CRN_PAD_CIRCULAR = 0, CRN_PAD_CONSTANT, CRN_PAD_REFLECT, CRN_PAD_REPLICATE, CRN_PAD_SYMMETRIC } crn_padding;
typedef enum crn_gelu { CRN_GELU_NONE = 0, CRN_GELU_TANH, CRN_GELU_SIGMOID } crn_gelu;
typedef enum crn_scatter {
  CRN_SCATTER_UPDATE = 0,
  CRN_SCATTER_ADD,
  CRN_SCATTER_SUB,
  CRN_SCATTER_MUL,
  CRN_SCATTER_DIV,
  CRN_SCATTER_MAX,
  CRN_SCATTER_MIN
} crn_scatter;
typedef enum crn_combiner { CRN_COMBINE_SUM = 0, CRN_COMBINE_PRODUCT, CRN_COMBINE_MIN, CRN_COMBINE_MAX } crn_combiner;
typedef enum crn_interpolation { CRN_INTERPOLATE_LINEAR = 0, CRN_INTERPOLATE_NEAREST } crn_interpolation;

typedef struct crn_region {
  uint32_t n_blocks;
  crn_block *const *blocks;
} crn_region;

struct crn_op {
  crn_op_id id;
  uint32_t n_operands, n_results, n_regions;
  crn_value **operands;
  crn_value *results;
  const crn_region *regions;  ///< of if, while, scatter_nd, reduce …; decomposition bodies are not kept
  union {
    const crn_constant *constant;  ///< CONSTANT
    crn_graph *callee;             ///< INVOKE
    int mode;                      ///< PAD, GELU, SCATTER_ALONG_AXIS, SCAN, INTERPOLATE: one of the enums above
    const char *text;              ///< delegate id, kernel name …: for messages
  } attr;
  const char *location;  ///< short text for messages ("" when unknown)
  crn_op *next;
};

struct crn_block {
  uint32_t n_arguments;
  crn_value *arguments;
  crn_op *first, *last;  ///< in order; the last one is the terminator
  uint32_t n_ops;
};

typedef struct crn_composite_decl {
  const char *name;
  crn_op_id id;  ///< row of ops.def, or CRN_OP_NONE for a name we have no direct kernel for
  uint32_t n_inputs;
  const char *const *input_names;
  const crn_attr *attrs;  ///< dictionary "op_attrs"
} crn_composite_decl;

struct crn_graph {
  const char *name;
  bool is_private, is_external, no_inline;
  const crn_composite_decl *composite;  ///< NULL for an ordinary graph
  crn_block *body;
  uint32_t n_values;  ///< ids run from 0 to n_values - 1, regions included
  uint32_t n_results;
  const crn_type *const *result_types;
  const char *const *result_names;  ///< NULL entries for tokens and unnamed results
  crn_graph *next;
  crn_program *program;
};

/// Something that must stay alive as long as the program's constants are used.
typedef struct crn_keep_alive {
  void (*release)(void *object);
  void *object;
} crn_keep_alive;

/// The mapped file that the constants of an imported program lie in; `path` NULL = there is none.
typedef struct crn_program_origin {
  const char *path;
  const void *data;
  size_t bytes;
} crn_program_origin;

struct crn_program {
  crn_arena arena;
  crn_graph *first, *last;
  uint32_t n_graphs;
  CRN_VEC(crn_keep_alive) keep_alive;
  crn_program_origin origin;
};

cairn_status crn_program_create(const cairn_allocator *allocator, crn_program **out_program);
void crn_program_destroy(crn_program *program);
/// Hands an object to the program, released with it. On failure the caller keeps it.
cairn_status crn_program_keep(crn_program *program, void (*release)(void *object), void *object);
crn_graph *crn_program_find_graph(const crn_program *program, const char *name);
/// Whether users may call it: neither private nor external nor a composite.
bool crn_graph_is_function(const crn_graph *graph);

/// Whether `attr.mode` of such an op means something.
bool crn_op_has_mode(crn_op_id id);
/// The bitmask behind operand 0 of an op with the trait CRN_SPARSE; NULL when the operand is not built from one.
crn_value *crn_sparse_mask(const crn_op *op);

/// Appends an op to a block.
void crn_block_append(crn_block *block, crn_op *op);
/// Makes an op with `n_results` results of given types; ids are taken from `graph`.
cairn_status crn_op_create(crn_program *program, crn_graph *graph, crn_op_id id, uint32_t n_operands, uint32_t n_results, crn_op **out_op);

#endif
