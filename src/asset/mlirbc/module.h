/// The stored form of a program: the MLIR bytecode container with the `aicode` dialect, read lazily from a mapped file.
///
/// Knows the container, the records of attributes and types and the property layouts of ops; knows nothing about what
/// ops mean. Everything lives in the module's arena or points into the mapped bytes.
#ifndef CRN_ASSET_MLIRBC_MODULE_H
#define CRN_ASSET_MLIRBC_MODULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "cairn/ndarray.h"

typedef struct crn_bc_module crn_bc_module;
typedef struct crn_bc_attr crn_bc_attr;
typedef struct crn_bc_type crn_bc_type;
typedef struct crn_bc_op crn_bc_op;
typedef struct crn_bc_block crn_bc_block;

/// Bytes of a string of the file (not NUL-terminated in general, though a NUL does follow in the file).
typedef struct crn_bc_text {
  const char *data;
  size_t bytes;
} crn_bc_text;

/// One field of an attribute or type record. `kind` is the letter of the record tables (attrs.def, types.def):
/// s text, a attribute, t type, u unsigned, i signed, b raw byte, d data bytes, r resource index, and their upper-case
/// forms S A T U I for lists of `n` items. An absent optional field has n = 0, every other single field n = 1.
typedef struct crn_bc_field {
  char kind;
  uint32_t n;
  union {
    uint64_t u;
    int64_t i;
    crn_bc_text s;  ///< also 'd'
    const crn_bc_attr *a;
    const crn_bc_type *t;
    const crn_bc_text *ss;
    const crn_bc_attr *const *as;
    const crn_bc_type *const *ts;
    const uint64_t *us;
    const int64_t *is;
  };
} crn_bc_field;

/// Codes of attribute records (attrs.def). Codes the program layer uses are named; 254 is a textual entry of any dialect,
/// 255 an attribute of the builtin dialect of older files (locations; fields: u code, then those of builtin.def).
enum {
  CRN_BC_ATTR_STRING = 1,           // s
  CRN_BC_ATTR_INTEGER = 2,          // u width, b unsigned, u low 64 bits (zero-extended), U further words
  CRN_BC_ATTR_FLOAT = 3,            // u width, u bits
  CRN_BC_ATTR_TYPE = 4,             // t
  CRN_BC_ATTR_ARRAY = 5,            // A
  CRN_BC_ATTR_DENSE_ELEMENTS = 6,   // b splat, d
  CRN_BC_ATTR_DENSE_RESOURCE = 7,   // r
  CRN_BC_ATTR_OPAQUE = 9,           // s name, A parameters
  CRN_BC_ATTR_HW_CONSTRAINTS = 12,  // I alignments, I interleave, u backing
  CRN_BC_ATTR_HW_CONSTRAINTS_BASE = 13,
  CRN_BC_ATTR_SYMBOL_REF = 14,      // S
  CRN_BC_ATTR_PARAM_BIND = 15,      // a reference, t, A
  CRN_BC_ATTR_PARAM_CONSTANT = 16,  // a value, t
  CRN_BC_ATTR_PADDING_MODE = 17,    // u
  CRN_BC_ATTR_APPROXIMATE = 19,     // u
  CRN_BC_ATTR_SCATTER_MODE = 20,    // u
  CRN_BC_ATTR_SPARSE = 21,          // u scheme, u position width, u coordinate width, u nonzeros (n = 0: absent)
  CRN_BC_ATTR_SPARSE_BLOCK = 23,
  CRN_BC_ATTR_SCAN_COMBINER = 25,       // u
  CRN_BC_ATTR_FOURCC = 27,              // u
  CRN_BC_ATTR_DI_BOUNDS = 38,           // i count, i lower, i upper, i stride
  CRN_BC_ATTR_INTERPOLATION_MODE = 43,  // u
  CRN_BC_ATTR_DICTIONARY = 45,          // A of OPAQUE(name, [value])
  CRN_BC_ATTR_UNIT = 46,
  CRN_BC_ATTR_TEXT = 254,    // s
  CRN_BC_ATTR_BUILTIN = 255  // u code, then the fields of builtin.def
};

/// Codes of type records (types.def). Scalars have no fields.
enum {
  CRN_BC_TYPE_TENSOR = 2,          // I shape (INT64_MIN = dynamic), t element
  CRN_BC_TYPE_TENSOR_ENCODED = 3,  // I shape, t element, a encoding
  CRN_BC_TYPE_FUNCTION = 30,       // T results, T operands
  CRN_BC_TYPE_HANDLE = 31,         // t inner
  CRN_BC_TYPE_TOKEN = 32,
  CRN_BC_TYPE_IMAGE = 39,  // a fourcc, u height, u width
  CRN_BC_TYPE_IMAGE_CONSTRAINED = 40,
  CRN_BC_TYPE_TEXT = 254,  // s
  CRN_BC_TYPE_BUILTIN = 255
};

struct crn_bc_attr {
  uint16_t code, n_fields;
  uint32_t index;  ///< in the file's attribute table
  const crn_bc_field *fields;
};

struct crn_bc_type {
  uint16_t code, n_fields;
  uint32_t index;  ///< in the file's type table: equal types may have several indices
  const crn_bc_field *fields;
};

typedef struct crn_bc_value {
  const crn_bc_type *type;
  const crn_bc_attr *location;  ///< of a block argument, else NULL
  const crn_bc_op *owner;       ///< defining op, NULL for a block argument
  void *user;                   ///< free for whoever walks the program
} crn_bc_value;

typedef struct crn_bc_property {
  const char *name;          ///< as in op_properties.def
  const crn_bc_attr *value;  ///< NULL when absent
} crn_bc_property;

typedef struct crn_bc_region {
  uint32_t n_blocks;
  crn_bc_block *const *blocks;
} crn_bc_region;

struct crn_bc_op {
  const char *dialect;  ///< "aicode"
  const char *name;     ///< "primitive.add_v1"
  const crn_bc_attr *location;
  uint32_t n_properties, n_results, n_operands, n_regions;
  bool isolated;
  const crn_bc_property *properties;
  crn_bc_value *const *results;
  crn_bc_value *const *operands;
  // Regions of an isolated op are decoded when they are first asked for: use crn_bc_op_regions.
  const crn_bc_region *regions;
  size_t section_offset, section_bytes;
};

struct crn_bc_block {
  uint32_t n_arguments, n_ops;
  crn_bc_value *const *arguments;
  crn_bc_op *const *ops;
};

/// Reads sections, tables and the top level. `bytes` must stay valid and unchanged while the module lives.
/// Errors: CORRUPT (naming section and offset), INCOMPATIBLE (container or dialect version), OUT_OF_MEMORY.
cairn_status crn_bc_module_open(const cairn_allocator *allocator, const void *data, size_t bytes, crn_bc_module **out_module);
void crn_bc_module_close(crn_bc_module *module);

/// The op `serialization.asset`.
const crn_bc_op *crn_bc_module_top(const crn_bc_module *module);
const char *crn_bc_module_producer(const crn_bc_module *module);
int crn_bc_module_version(const crn_bc_module *module);

/// The regions of an op, decoded on first use. Thread: one walker of a module at a time. Errors: CORRUPT.
cairn_status crn_bc_op_regions(crn_bc_module *module, const crn_bc_op *op, const crn_bc_region **out_regions);

/// Whether the op's region is only the reference decomposition of an op that is complete without it (op_names.def).
bool crn_bc_op_has_decomposition_body(const crn_bc_op *op);

/// Calls `visit` for every operation inside of `op`, in file order, an operation before those inside of it. Without
/// `bodies`, decomposition bodies are left out. Errors: CORRUPT, and what `visit` returns when not OK.
cairn_status crn_bc_walk(crn_bc_module *module, const crn_bc_op *op, bool bodies, cairn_status (*visit)(void *user, const crn_bc_op *op),
                         void *user);

/// The property of a name, NULL when absent.
const crn_bc_attr *crn_bc_op_property(const crn_bc_op *op, const char *name);

/// Codes of the builtin dialect that matter outside of the reader.
enum { CRN_BC_BUILTIN_DICTIONARY = 1, CRN_BC_BUILTIN_STRING = 2 };

enum { CRN_BC_RESOURCE_BLOB = 0, CRN_BC_RESOURCE_BOOL = 1, CRN_BC_RESOURCE_STRING = 2 };

typedef struct crn_bc_resource {
  crn_bc_text key;
  uint32_t kind;
  const void *data;  ///< into the mapped bytes
  size_t bytes;
  uint64_t alignment;
} crn_bc_resource;

uint32_t crn_bc_module_resource_count(const crn_bc_module *module);
/// NULL when the index is outside of the table.
const crn_bc_resource *crn_bc_module_resource(const crn_bc_module *module, uint64_t index);

/// The name of a record in attrs.def or types.def ("text", "builtin" for codes 254 and 255).
const char *crn_bc_attr_kind(const crn_bc_attr *a);
const char *crn_bc_type_kind(const crn_bc_type *t);
/// The element type a scalar type stands for, CAIRN_DTYPE_NONE for every other type.
cairn_dtype crn_bc_type_dtype(const crn_bc_type *t);

/// How many records an attribute or type is when written out as a tree, at most UINT32_MAX. Records share parts, so this
/// can be exponential in the size of the file: whoever expands records checks it first. The nesting is bounded.
uint32_t crn_bc_attr_weight(const crn_bc_module *module, const crn_bc_attr *a);
uint32_t crn_bc_type_weight(const crn_bc_module *module, const crn_bc_type *t);

/// Shape and element type of a TENSOR or TENSOR_ENCODED. `out_encoding` (may be NULL) is NULL without an encoding. A
/// dynamic dimension is CAIRN_DYNAMIC in `out_shape`, which has room for `capacity` dims and may be NULL.
/// Errors: CORRUPT (no tensor, an element that is no scalar, a negative dim), UNSUPPORTED (a rank above `capacity`).
cairn_status crn_bc_get_tensor(const crn_bc_type *t, const char *what, cairn_dtype *out_dtype, int *out_rank, int64_t *out_shape,
                               int capacity, const crn_bc_attr **out_encoding);

/// The bytes of a constant. Elements are row-major and little endian.
typedef struct crn_bc_constant {
  const unsigned char *data;  ///< into the mapped file
  size_t bytes;
  cairn_dtype dtype;
  int64_t n_elements;
  bool splat;              ///< one stored element stands for all (with `packed`: the low bits of the first byte)
  bool packed;             ///< a bit stream, least significant bits first, elements may cross bytes
  bool bytes_per_subbyte;  ///< a sub-byte type with one byte per element, the value in the low bits, not sign-extended
} crn_bc_constant;

/// The data of a DENSE_ELEMENTS or DENSE_RESOURCE of a tensor type with static dims, with its length checked.
/// Errors: CORRUPT (other attribute, wrong length, dynamic dims), UNSUPPORTED (a sparse tensor).
cairn_status crn_bc_constant_data(const crn_bc_module *module, const crn_bc_attr *value, const crn_bc_type *type,
                                  crn_bc_constant *out_constant);

// --- small readers of common attributes; CORRUPT naming `what` when the attribute is of another kind or absent ---------

cairn_status crn_bc_get_text(const crn_bc_attr *a, const char *what, crn_bc_text *out_text);
cairn_status crn_bc_get_int(const crn_bc_attr *a, const char *what, int64_t *out_value);
cairn_status crn_bc_get_array(const crn_bc_attr *a, const char *what, const crn_bc_attr *const **out_items, uint32_t *out_n);
/// Looks up `key` in an ARRAY or DICTIONARY of OPAQUE(name, [value]); NULL when absent.
const crn_bc_attr *crn_bc_find_entry(const crn_bc_attr *a, const char *key);

#endif
