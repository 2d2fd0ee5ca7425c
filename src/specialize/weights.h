/// Constant matrices of a plan, and their packed forms.
#ifndef CRN_SPECIALIZE_WEIGHTS_H
#define CRN_SPECIALIZE_WEIGHTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "backend/cpu/kernels/linear/linear.h"
#include "base/huge_map.h"
#include "base/region.h"
#include "specialize/edit.h"
#include "tensor/blocks.h"

enum { CRN_WEIGHT_PARTS = 4 };  ///< tensors that say what a matrix is

/// A constant matrix [n outputs, k inputs] as a plan has it: quantised blockwise (w = data * scale + (offset2 - offset1 * scale)), blocks
/// of another format as they lie in a mapped file, or dense.
typedef struct crn_weight_source {
  bool is_quantized;
  const crn_block_format *blocks;  ///< of bytes that hold codes and scales; NULL = not of that form
  crn_tensor pieces[CRN_WEIGHT_PARTS];
  int n_pieces;                              ///< of blocks: rows below rows; `data` is the first
  crn_tensor data, scale, offset1, offset2;  ///< the last three of a quantised one; all of one rank
  /// Of palettes: `data` holds codes, `scale` the factors of the outputs if there are any.
  bool is_palette;
  crn_tensor lut;  ///< [groups of each dimension .., entries, vector]
  int64_t vector;  ///< weights that one code stands for, in a row along `vector_axis`
  int vector_axis, code_bits;
  crn_linear_palette palette;
  cairn_dtype dtype;     ///< of the dense values
  int64_t n, k;          ///< n counts the outputs of all matrices of a stack
  int64_t first, whole;  ///< of a part of the outputs of a single matrix: the row that is output 0, and how many rows all have; else 0
  int64_t stack;         ///< matrices one behind the other (experts), 1 = a single one
  int n_axis, k_axis;    ///< of `data`
  int64_t taps;          ///< of a convolution's dense weights: `data` is [n, k / taps, taps], and inputs are taken tap by tap; 0 = a matrix
  int stack_axis;        ///< of `data`; counts when stack > 1
  bool has_common_zero;  ///< all offsets are the zero point `zero`, and nothing is added
  float zero;
  bool is_transient;  ///< the memory may go before the model does: its address names nothing
} crn_weight_source;

/// Outputs of one matrix as it is stored.
static inline int64_t crn_weight_source_rows(const crn_weight_source *w) { return w->whole ? w->whole : w->n / w->stack; }

/// Axes of a value that is seen as a matrix: over outputs, over inputs, and over a stack of matrices (CRN_NO_AXIS = a single one).
typedef struct crn_matrix_axes {
  int n, k, stack;
} crn_matrix_axes;
enum { CRN_NO_AXIS = -1 };

/// What the slot holds as a matrix with those axes (all other sizes are 1), seen through transpositions and changes of rank. False
/// when it is no constant, or none of the forms that can be packed.
bool crn_weight_source_find(const crn_plan *plan, const crn_plan_index *index, uint32_t slot, crn_matrix_axes axes, crn_weight_source *out);

/// weight_palette.c: the steps of a palettized matrix, `scaling` NULL when there is none; `dtype` of the values that come out.
typedef struct crn_palette_steps {
  crn_step *lut;
  const crn_step *scaling;
  cairn_dtype dtype;
} crn_palette_steps;
bool crn_weight_palette_steps(const crn_plan *plan, const crn_plan_index *index, crn_step *last, crn_palette_steps *out);
/// Whether the steps are a palette that can be packed; in two parts, between which the axes and sizes are set. Then a row's codes, a byte
/// each, and the tables of all its groups; returns its factor.
bool crn_weight_palette_find(const crn_plan *plan, const crn_palette_steps *steps, crn_weight_source *out);
bool crn_weight_palette_finish(const crn_plan *plan, const crn_step *scaling, crn_weight_source *out);
float crn_weight_palette_read(const crn_weight_source *source, int64_t row, uint8_t *codes, float *tables);
/// Marks the palettes that somebody can use packed (crn_step.is_kept); the others are as well expanded at once. Errors: OUT_OF_MEMORY.
cairn_status crn_plan_keep_palettes(crn_plan *plan);

/// weight_read.c: row `row` as crn_linear_pack_row takes it. `values` has room for k floats, the others for ceil(k / 32) values.
void crn_weight_source_read(const crn_weight_source *source, int64_t row, void *values, float *scales, float *mins);
/// The format a matrix is packed in, and the zero point that goes with it.
crn_linear_format crn_weight_source_format(const crn_weight_source *source, int32_t *out_zero);
/// Sets has_common_zero and zero.
void crn_weight_source_find_zero(crn_weight_source *source);
/// Whether the packed form of a quantised matrix stands for its very values: scales and minimums are f16 numbers.
bool crn_weight_source_is_exact(const crn_weight_source *source);
/// Whether two matrices can be packed into one: the same format and zero point.
bool crn_weight_sources_match(const crn_weight_source *a, const crn_weight_source *b);

/// What a matrix is, without addresses: equal keys of one program mean equal packed forms. Plain data without padding bytes that matter
/// (keys are cleared before they are filled in), so that keys are compared and stored as they are.
typedef struct crn_weight_key_part {
  int64_t offset;   ///< of the first element in the program's data; -1 for small data elsewhere
  uint64_t digest;  ///< of such data
  int32_t dtype, rank;
  int64_t is_packed;
  int64_t dims[CAIRN_MAX_RANK], strides[CAIRN_MAX_RANK];
} crn_weight_key_part;

enum { CRN_MAX_WEIGHT_SOURCES = 4 };

typedef struct crn_weight_key {
  int64_t n_sources, interleave;
  struct {
    int64_t is_quantized, dtype, n, k, first, taps, n_axis, k_axis, stack, stack_axis, palette;
    crn_weight_key_part parts[CRN_WEIGHT_PARTS];
  } sources[CRN_MAX_WEIGHT_SOURCES];
} crn_weight_key;

/// A packed matrix of the store.
typedef struct crn_packed_weight {
  struct crn_packed_weight *next;
  bool has_key;    ///< else nobody can ask for it again
  bool is_cached;  ///< it came from the cache
  crn_weight_key key;
  crn_linear_weights weights;
} crn_packed_weight;

/// Packed weights of a model. The same matrix is packed once, whoever asks. Thread: safe.
typedef struct crn_weight_store {
  pthread_mutex_t lock;
  const cairn_allocator *allocator;
  const void *base;  ///< the program's data, which keys count offsets in; NULL = there is none
  size_t base_bytes;
  bool is_file;  ///< the data is a mapped file, whose pages come back when they are read again
  crn_memory_region region;
  crn_huge_map map;         ///< of the cache's file, for the matrices that came from it and were not read into the region
  uint64_t *digests;        ///< of the map's huge pages while they are the file's; else NULL
  atomic_bool is_borrowed;  ///< the map's pages are the file's: crn_weight_store_settle
  crn_packed_weight *first;
} crn_weight_store;

void crn_weight_store_initialize(crn_weight_store *store, const cairn_allocator *allocator);
void crn_weight_store_deinitialize(crn_weight_store *store);
/// Of all matrices, with what lies between them.
size_t crn_weight_store_bytes(const crn_weight_store *store);

/// Packs the rows of several matrices of equal k, one below the other; `interleave`: tile by tile in turn instead (for pairs whose
/// outputs are combined). Errors: OUT_OF_MEMORY, OUT_OF_RANGE.
cairn_status crn_weight_store_pack(crn_weight_store *store, crn_pool *pool, const crn_weight_source *sources, int n_sources,
                                   bool interleave, crn_linear_weights *out_weights);

/// weight_settle.c: matrices that lie in the map of a cache's file move into memory of the program's own, at the addresses where they are;
/// others may be reading them. To be called when the first result is there: until then the file saves the time it takes to get memory.
/// Cheap when there is nothing to do. Errors: CORRUPT (the file was changed since it was checked; so will all further calls).
cairn_status crn_weight_store_settle(crn_weight_store *store, crn_pool *pool);
/// What settling would need; part of crn_weight_store_deinitialize.
void crn_weight_store_forget_digests(crn_weight_store *store);

/// weight_digest.c: of a piece of a cache's file; every changed byte changes it.
uint64_t crn_weight_digest(const void *data, size_t bytes);

/// weight_cache.c: the store's matrices as a file. Reading takes in what the file holds when it was written for `identity` (the
/// program's hash and all that packing depends on); a file that is cut short, damaged or of something else is NOT_FOUND and nothing
/// changes. Saving writes all matrices that have keys, through a temporary file.
cairn_status crn_weight_cache_read(crn_weight_store *store, crn_pool *pool, const char *path, const char *identity);
cairn_status crn_weight_cache_write(crn_weight_store *store, const char *path, const char *identity);

#endif
