// Ops that expand compressed constants, and quantisation of activations.
#include "base/checked.h"
#include "program/infer/dims.h"
#include "tensor/blocks.h"

// Operands are bytes, a row of blocks along the last dimension; they are joined along the first one.
cairn_status crn_infer_unpack_blocks(const crn_infer_args *args) {
  const crn_block_format *format = crn_block_format_of(args->mode);
  if (args->n_operands < 1) return CRN_FAIL(INVALID_ARGUMENT, "%s: no operands", crn_infer_name(args));
  const crn_tensor *first = &args->operands[0];
  crn_tensor out = *first;
  if (!format) return CRN_FAIL(INVALID_ARGUMENT, "%s: no format has the number %d", crn_infer_name(args), args->mode);
  out.dims[0] = 0;
  for (int i = 0; i < args->n_operands; i++) {
    const crn_tensor *x = &args->operands[i];
    CRN_TRY(crn_infer_rank(args, i, first->rank > 2 ? first->rank : 2, first->rank));
    bool fits = x->dtype == CAIRN_UI8 && x->dims[x->rank - 1] % format->bytes == 0;
    for (int d = 0; d < x->rank; d++) fits &= x->dims[d] >= 0 && (d == 0 || x->dims[d] == first->dims[d]);
    if (!fits || !crn_add_i64(out.dims[0], x->dims[0], &out.dims[0]))
      return CRN_FAIL(INVALID_ARGUMENT, "%s: operand %d is not made of rows of %s blocks like the first", crn_infer_name(args), i,
                      format->name);
  }
  int last = out.rank - 1;
  if (!crn_mul_i64(out.dims[last] / format->bytes, format->elements, &out.dims[last]))
    return CRN_FAIL(OUT_OF_RANGE, "%s: the rows are too long", crn_infer_name(args));
  return crn_infer_finish(args, 0, crn_infer_declared_dtype(args, 0, CAIRN_F32), out.rank, out.dims);
}

// indices of rank K, table of rank K + 2: [groups of each dimension .., palette, vector].
cairn_status crn_infer_lut_to_dense(const crn_infer_args *args) {
  CRN_TRY(crn_infer_arity(args, 3));
  const crn_tensor *index = &args->operands[0], *table = &args->operands[1];
  if (crn_dtype_class_of(index->dtype) != CRN_CLASS_UINT || cairn_dtype_bytes(index->dtype) != 1) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: operand 0 is %s, an unsigned type of at most 8 bits is needed", crn_infer_name(args),
                    cairn_dtype_name(index->dtype));
  }
  CRN_TRY(crn_infer_rank(args, 1, index->rank + 2, index->rank + 2));
  for (int i = 0; i < index->rank; i++) {
    int64_t n = index->dims[i], groups = table->dims[i];
    if (n == CAIRN_DYNAMIC || groups == CAIRN_DYNAMIC || (groups > 0 && n % groups == 0)) continue;
    return CRN_FAIL(INVALID_ARGUMENT, "%s: operand 1 has %lld groups in dimension %d, which do not divide the size %lld",
                    crn_infer_name(args), (long long)groups, i, (long long)n);
  }
  int64_t palette = (int64_t)1 << crn_dtype_bits(index->dtype), size = table->dims[index->rank], vector = table->dims[index->rank + 1];
  if (size != CAIRN_DYNAMIC && size != palette) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: operand 1 has palettes of %lld entries, %s indices need %lld", crn_infer_name(args),
                    (long long)size, cairn_dtype_name(index->dtype), (long long)palette);
  }
  // The sparse form brings the mask of its indices along.
  crn_tensor joined;
  if (args->id == CRN_OP_lut_to_sparse_with_bitmask && args->n_operands > 3) CRN_TRY(crn_infer_same_dims(args, 0, 3, &joined));
  if (vector == 0) return CRN_FAIL(INVALID_ARGUMENT, "%s: the entries of operand 1 are empty", crn_infer_name(args));
  int64_t value, dims[CAIRN_MAX_RANK];
  bool known;
  int axis = -1;
  CRN_TRY(crn_infer_int_scalar(args, 2, &value, &known));
  // The axis says where the elements of an entry go; it means nothing when there is one.
  if (known && vector != 1) CRN_TRY(crn_infer_axis(args, value, index->rank, &axis));
  for (int i = 0; i < index->rank; i++) {
    dims[i] = index->dims[i];
    if (vector == 1 || (known && i != axis) || dims[i] == CAIRN_DYNAMIC) continue;
    if (!known || vector == CAIRN_DYNAMIC) {
      dims[i] = CAIRN_DYNAMIC;
    } else if (!crn_mul_i64(dims[i], vector, &dims[i])) {
      return CRN_FAIL(OUT_OF_RANGE, "%s: the size of dimension %d is too large", crn_infer_name(args), i);
    }
  }
  return crn_infer_finish(args, 0, table->dtype, index->rank, dims);
}

// values: one-dimensional, mask: ui1 with the dense shape. In memory a sparse value is kept dense.
cairn_status crn_infer_build_sparse(const crn_infer_args *args) {
  CRN_TRY(crn_infer_arity(args, 2));
  CRN_TRY(crn_infer_rank(args, 0, 1, 1));
  const crn_tensor *values = &args->operands[0], *mask = &args->operands[1];
  if (mask->dtype != CAIRN_UI1 && mask->dtype != CAIRN_BOOL) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: operand 1 is %s, the mask must be uint1", crn_infer_name(args), cairn_dtype_name(mask->dtype));
  }
  return crn_infer_finish(args, 0, values->dtype, mask->rank, mask->dims);
}

// Scale and offsets are single values or vectors along the axis; when they are single values, operand 4 may list all axes
// in place of one. The element type of the result is declared.
cairn_status crn_infer_quantize(const crn_infer_args *args) {
  CRN_TRY(crn_infer_arity(args, 5));
  const crn_tensor *x = &args->operands[0];
  int64_t value = 0;
  bool known = false;
  int axis = -1;
  bool lists_axes = args->operands[4].rank == 1 && args->operands[4].dims[0] > 1;
  if (lists_axes && args->operands[4].dims[0] != x->rank) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: operand 4 lists %lld axes, it must name one or all %d", crn_infer_name(args),
                    (long long)args->operands[4].dims[0], x->rank);
  }
  if (!lists_axes) CRN_TRY(crn_infer_int_scalar(args, 4, &value, &known));
  for (int k = 1; k < 4; k++) {
    const crn_tensor *p = &args->operands[k];
    CRN_TRY(crn_infer_rank(args, k, 0, 1));
    int64_t n = p->rank == 0 ? 1 : p->dims[0];
    if (lists_axes && n != 1 && n != CAIRN_DYNAMIC) {
      return CRN_FAIL(INVALID_ARGUMENT, "%s: operand %d has %lld entries, over all axes it must have one", crn_infer_name(args), k,
                      (long long)n);
    }
    if (!known || n == 1 || n == CAIRN_DYNAMIC) continue;
    CRN_TRY(crn_infer_axis(args, value, x->rank, &axis));
    if (x->dims[axis] == CAIRN_DYNAMIC || x->dims[axis] == n) continue;
    return CRN_FAIL(INVALID_ARGUMENT, "%s: operand %d has %lld entries, dimension %d of operand 0 has size %lld", crn_infer_name(args), k,
                    (long long)n, axis, (long long)x->dims[axis]);
  }
  return crn_infer_declared(args);
}

// Scales of the slices along the axis, and where a second result is wanted their zero points, which have the type of the range.
cairn_status crn_infer_statistics(const crn_infer_args *args) {
  CRN_TRY(crn_infer_arity(args, 3));
  CRN_TRY(crn_infer_rank(args, 0, 1, CAIRN_MAX_RANK));
  const crn_tensor *x = &args->operands[0], *range = &args->operands[1];
  if (crn_dtype_is_complex(x->dtype) || x->dtype == CAIRN_BOOL || crn_dtype_is_complex(range->dtype) || range->dtype == CAIRN_BOOL) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s of %s over a range of %s: numbers are needed", crn_infer_name(args), cairn_dtype_name(x->dtype),
                    cairn_dtype_name(range->dtype));
  }
  CRN_TRY(crn_infer_rank(args, 1, 1, 1));
  if (range->dims[0] != 2 && range->dims[0] != CAIRN_DYNAMIC) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: operand 1 has %lld entries, it must have 2", crn_infer_name(args), (long long)range->dims[0]);
  }
  int64_t value, n = x->rank == 1 ? x->dims[0] : CAIRN_DYNAMIC;
  bool known;
  int axis;
  CRN_TRY(crn_infer_int_scalar(args, 2, &value, &known));
  if (known) {
    CRN_TRY(crn_infer_axis(args, value, x->rank, &axis));
    n = x->dims[axis];
  }
  CRN_TRY(crn_infer_finish(args, 0, x->dtype, 1, &n));
  return args->n_results > 1 ? crn_infer_finish(args, 1, range->dtype, 1, &n) : CAIRN_OK;
}

static cairn_dtype complex_of(cairn_dtype part) {
  switch (part) {
    case CAIRN_F64:
      return CAIRN_C128;
    case CAIRN_F32:
      return CAIRN_C64;
    case CAIRN_F16:
      return CAIRN_C32;
    case CAIRN_BF16:
      return CAIRN_CBF16;
    case CAIRN_F8E5M2:
      return CAIRN_CF8E5M2;
    case CAIRN_F8E4M3FN:
      return CAIRN_CF8E4M3FN;
    default:
      return CAIRN_DTYPE_NONE;
  }
}

cairn_status crn_infer_create_complex(const crn_infer_args *args) {
  CRN_TRY(crn_infer_arity(args, 2));
  CRN_TRY(crn_infer_same_dtype(args, 0, 1));
  cairn_dtype part = args->operands[0].dtype, dtype = complex_of(part);
  if (dtype == CAIRN_DTYPE_NONE) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: the operands are %s, a float type is needed", crn_infer_name(args), cairn_dtype_name(part));
  }
  crn_tensor out;
  CRN_TRY(crn_infer_same_dims(args, 0, 1, &out));
  return crn_infer_finish(args, 0, dtype, out.rank, out.dims);
}

cairn_status crn_infer_complex_part(const crn_infer_args *args) {
  static const cairn_dtype parts[] = {CAIRN_F64, CAIRN_F32, CAIRN_F16, CAIRN_BF16, CAIRN_F8E5M2, CAIRN_F8E4M3FN};
  CRN_TRY(crn_infer_arity(args, 1));
  const crn_tensor *x = &args->operands[0];
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    if (complex_of(parts[i]) == x->dtype) return crn_infer_finish(args, 0, parts[i], x->rank, x->dims);
  }
  return CRN_FAIL(INVALID_ARGUMENT, "%s: operand 0 is %s, a complex type is needed", crn_infer_name(args), cairn_dtype_name(x->dtype));
}
