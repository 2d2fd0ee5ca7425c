#include "tools/values.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/file.h"
#include "tools/describe.h"

// What one part of a complex number is; NONE for every other type.
static cairn_dtype part_of(cairn_dtype dtype) {
  switch (dtype) {
    case CAIRN_C128:
      return CAIRN_F64;
    case CAIRN_C64:
      return CAIRN_F32;
    case CAIRN_C32:
      return CAIRN_F16;
    case CAIRN_CBF16:
      return CAIRN_BF16;
    case CAIRN_CF8E5M2:
      return CAIRN_F8E5M2;
    case CAIRN_CF8E4M3FN:
      return CAIRN_F8E4M3FN;
    default:
      return CAIRN_DTYPE_NONE;
  }
}

static cairn_dtype stored_type(cairn_dtype dtype) {
  switch (dtype) {
    case CAIRN_SI4:
    case CAIRN_SI2:
      return CAIRN_SI8;
    case CAIRN_UI6:
    case CAIRN_UI4:
    case CAIRN_UI3:
    case CAIRN_UI2:
    case CAIRN_UI1:
    case CAIRN_F4E2M1FN:
      return CAIRN_UI8;
    case CAIRN_TF32:
      return CAIRN_F32;
    default:
      return part_of(dtype) != CAIRN_DTYPE_NONE ? CAIRN_F32 : dtype;
  }
}

// --- from a file ------------------------------------------------------------------------------------------------------

// Bits may also come as bytes, and complex numbers in any float type or as C64.
static bool accepts(cairn_dtype wanted, cairn_dtype stored) {
  if (stored == stored_type(wanted) || stored == wanted) return true;
  switch (wanted) {
    case CAIRN_BOOL:
    case CAIRN_F8E5M2:
    case CAIRN_F8E4M3FN:
    case CAIRN_F8E8M0FNU:
      return stored == CAIRN_UI8;
    default:
      return part_of(wanted) != CAIRN_DTYPE_NONE && (stored == CAIRN_F64 || stored == part_of(wanted));
  }
}

static cairn_status wrong_type(const cairn_descriptor *d, const crn_tensor *stored, const char *what) {
  crn_str wanted, found;
  crn_str_initialize(&wanted, NULL);
  crn_str_initialize(&found, NULL);
  cairn_status status = crn_describe_type(&wanted, d);
  if (status == CAIRN_OK) status = crn_describe_shape(&found, stored->dims, stored->rank);
  if (status == CAIRN_OK)
    status = CRN_FAIL(INVALID_ARGUMENT, "%s: the file holds %s %s, the function takes %s%s", what, cairn_dtype_name(stored->dtype),
                      found.data, wanted.data, part_of(d->dtype) != CAIRN_DTYPE_NONE ? " (as float32 with a last dim of 2)" : "");
  crn_str_deinitialize(&wanted);
  crn_str_deinitialize(&found);
  return status;
}

// The shape of the array for a stored shape, or false when they do not fit.
static bool match_shape(const cairn_descriptor *d, const crn_tensor *stored, int64_t *out_shape) {
  int rank = stored->rank;
  bool split = part_of(d->dtype) != CAIRN_DTYPE_NONE && part_of(stored->dtype) == CAIRN_DTYPE_NONE;
  if (split) {
    if (rank == 0 || stored->dims[rank - 1] != 2) return false;
    rank--;
  }
  if (d->rank == 0) return rank == 0 || (rank == 1 && stored->dims[0] == 1);
  if (rank == 0 && d->rank == 1 && (d->shape[0] == 1 || d->shape[0] < 0)) {
    out_shape[0] = 1;
    return true;
  }
  if (rank != d->rank) return false;
  for (int i = 0; i < rank; i++) {
    if (d->shape[i] >= 0 && d->shape[i] != stored->dims[i]) return false;
    out_shape[i] = stored->dims[i];
  }
  return true;
}

// Codes that the element type cannot hold would be cut silently.
static cairn_status check_codes(cairn_dtype dtype, const void *data, int64_t n, const char *what) {
  int low, high;
  switch (dtype) {
    case CAIRN_BOOL:
      low = 0, high = 1;
      break;
    case CAIRN_SI4:
      low = -8, high = 7;
      break;
    case CAIRN_SI2:
      low = -2, high = 1;
      break;
    case CAIRN_UI6:
      low = 0, high = 63;
      break;
    case CAIRN_UI4:
    case CAIRN_F4E2M1FN:
      low = 0, high = 15;
      break;
    case CAIRN_UI3:
      low = 0, high = 7;
      break;
    case CAIRN_UI2:
      low = 0, high = 3;
      break;
    case CAIRN_UI1:
      low = 0, high = 1;
      break;
    default:
      return CAIRN_OK;
  }
  for (int64_t i = 0; i < n; i++) {
    int code = low < 0 ? ((const signed char *)data)[i] : ((const unsigned char *)data)[i];
    if (code < low || code > high)
      return CRN_FAIL(INVALID_ARGUMENT, "%s: element %lld is %d, %s holds %d to %d", what, (long long)i, code, cairn_dtype_name(dtype), low,
                      high);
  }
  return CAIRN_OK;
}

static cairn_status unpack_and_write(const crn_tensor *stored, cairn_ndarray *array) {
  size_t bytes = (size_t)crn_tensor_count(stored);
  void *data = NULL;
  CRN_TRY(crn_alloc(crn_default_allocator(), bytes, &data));
  crn_tensor plain = crn_tensor_make(stored->dtype, stored->dims, stored->rank, data);
  crn_tensor_unpack(stored, &plain);
  cairn_status status = cairn_ndarray_write(array, data, bytes);
  crn_free(crn_default_allocator(), data, bytes);
  return status;
}

static cairn_status convert_and_write(const crn_tensor *stored, cairn_dtype from, cairn_ndarray *array) {
  cairn_dtype part = part_of(cairn_ndarray_dtype(array));
  size_t n, bytes;
  if (!crn_mul_size((size_t)cairn_ndarray_count(array), 2, &n) || !crn_mul_size(n, cairn_dtype_bytes(part), &bytes))
    return CRN_FAIL(OUT_OF_RANGE, "array too large");
  void *data = NULL;
  CRN_TRY(crn_alloc(crn_default_allocator(), bytes, &data));
  crn_convert(from, stored->data, part, data, (int64_t)n);
  cairn_status status = cairn_ndarray_write(array, data, bytes);
  crn_free(crn_default_allocator(), data, bytes);
  return status;
}

static cairn_status fill(cairn_ndarray *array, const crn_tensor *stored, const char *what) {
  cairn_dtype dtype = cairn_ndarray_dtype(array), part = part_of(dtype);
  if (stored->packed) return unpack_and_write(stored, array);
  cairn_dtype from = part_of(stored->dtype) != CAIRN_DTYPE_NONE ? part_of(stored->dtype) : stored->dtype;
  if (part != CAIRN_DTYPE_NONE && from != part) return convert_and_write(stored, from, array);
  int64_t n = cairn_ndarray_count(array);
  CRN_TRY(check_codes(dtype, stored->data, n, what));
  return cairn_ndarray_write(array, stored->data, (size_t)n * cairn_dtype_bytes(dtype));
}

cairn_status crn_array_from_file(cairn_context *context, const cairn_descriptor *d, const crn_tensor *stored, const char *what,
                                 cairn_ndarray **out_array) {
  int64_t shape[CAIRN_MAX_RANK];
  cairn_ndarray *array = NULL;
  *out_array = NULL;
  if (!accepts(d->dtype, stored->dtype) || !match_shape(d, stored, shape)) return wrong_type(d, stored, what);
  CRN_TRY_NOTE(cairn_ndarray_create_from_descriptor(context, d, shape, d->rank, &array), "%s", what);
  cairn_status status = fill(array, stored, what);
  if (status != CAIRN_OK) {
    cairn_ndarray_release(array);
    return status;
  }
  *out_array = array;
  return CAIRN_OK;
}

// --- to a file --------------------------------------------------------------------------------------------------------

// All elements in logical order, in memory of the arena.
static cairn_status read_elements(const cairn_ndarray *array, crn_arena *arena, void **out_data) {
  size_t bytes = (size_t)cairn_ndarray_count(array) * cairn_dtype_bytes(cairn_ndarray_dtype(array));
  CRN_TRY(crn_arena_alloc(arena, bytes, out_data));
  return cairn_ndarray_read(array, *out_data, bytes);
}

// The elements converted to another type; complex numbers count as two.
static cairn_status read_converted(const cairn_ndarray *array, crn_arena *arena, cairn_dtype to, void **out_data, int64_t *out_n) {
  cairn_dtype dtype = cairn_ndarray_dtype(array), part = part_of(dtype);
  void *data = NULL;
  CRN_TRY(read_elements(array, arena, &data));
  *out_n = cairn_ndarray_count(array) * (part == CAIRN_DTYPE_NONE ? 1 : 2);
  CRN_TRY(crn_arena_array(arena, (size_t)*out_n, cairn_dtype_bytes(to), out_data));
  crn_convert(part == CAIRN_DTYPE_NONE ? dtype : part, data, to, *out_data, *out_n);
  return CAIRN_OK;
}

cairn_status crn_array_to_file(const cairn_ndarray *array, crn_arena *arena, crn_tensor *out_stored) {
  cairn_dtype dtype = cairn_ndarray_dtype(array);
  int rank = cairn_ndarray_rank(array);
  const int64_t *shape = cairn_ndarray_shape(array);
  void *data = NULL;
  if (part_of(dtype) == CAIRN_DTYPE_NONE) {
    CRN_TRY(read_elements(array, arena, &data));
    *out_stored = crn_tensor_make(stored_type(dtype), shape, rank, data);
    return CAIRN_OK;
  }
  int64_t dims[CAIRN_MAX_RANK + 1], n;
  if (rank >= CAIRN_MAX_RANK) return CRN_FAIL(UNSUPPORTED, "a complex array of rank %d cannot be written with one more dim", rank);
  if (rank) memcpy(dims, shape, (size_t)rank * sizeof *dims);
  dims[rank] = 2;
  CRN_TRY(read_converted(array, arena, CAIRN_F32, &data, &n));
  *out_stored = crn_tensor_make(CAIRN_F32, dims, rank + 1, data);
  return CAIRN_OK;
}

// numpy's name of a type, and the type the elements are converted to first.
static const char *npy_type(cairn_dtype dtype, cairn_dtype *out_as) {
  *out_as = dtype;
  switch (dtype) {
    case CAIRN_BOOL:
      return "|b1";
    case CAIRN_F64:
      return "<f8";
    case CAIRN_F32:
    case CAIRN_TF32:
      return "<f4";
    case CAIRN_F16:
      return "<f2";
    case CAIRN_SI64:
      return "<i8";
    case CAIRN_SI32:
      return "<i4";
    case CAIRN_SI16:
      return "<i2";
    case CAIRN_SI8:
    case CAIRN_SI4:
    case CAIRN_SI2:
      return "|i1";
    case CAIRN_UI64:
      return "<u8";
    case CAIRN_UI32:
      return "<u4";
    case CAIRN_UI16:
      return "<u2";
    case CAIRN_UI8:
    case CAIRN_UI6:
    case CAIRN_UI4:
    case CAIRN_UI3:
    case CAIRN_UI2:
    case CAIRN_UI1:
      return "|u1";
    case CAIRN_C128:
      *out_as = CAIRN_F64;
      return "<c16";
    case CAIRN_C64:
    case CAIRN_C32:
    case CAIRN_CBF16:
    case CAIRN_CF8E5M2:
    case CAIRN_CF8E4M3FN:
      *out_as = CAIRN_F32;
      return "<c8";
    default:
      *out_as = CAIRN_F32;
      return "<f4";
  }
}

// Magic, version 1.0, length, then a Python dict padded so that the data starts at a multiple of 64.
static cairn_status npy_header(crn_str *out, const char *type, const int64_t *shape, int rank) {
  crn_str dict;
  crn_str_initialize(&dict, NULL);
  cairn_status status;
  CRN_TRY_GOTO(crn_str_printf(&dict, "{'descr': '%s', 'fortran_order': False, 'shape': (", type));
  for (int i = 0; i < rank; i++)
    CRN_TRY_GOTO(crn_str_printf(&dict, "%s%lld%s", i ? " " : "", (long long)shape[i], i + 1 < rank || rank == 1 ? "," : ""));
  CRN_TRY_GOTO(crn_str_puts(&dict, "), }"));
  while ((10 + dict.size + 1) % 64) CRN_TRY_GOTO(crn_str_putc(&dict, ' '));
  CRN_TRY_GOTO(crn_str_putc(&dict, '\n'));
  char start[10] = {'\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0, (char)(dict.size & 0xff), (char)(dict.size >> 8)};
  CRN_TRY_GOTO(crn_str_append(out, start, sizeof start));
  CRN_TRY_GOTO(crn_str_append(out, dict.data, dict.size));
done:
  crn_str_deinitialize(&dict);
  return status;
}

static cairn_status npy_path(crn_str *out, const char *directory, const char *name) {
  CRN_TRY(crn_path_join(out, directory, ""));
  for (const char *p = name; *p; p++) {
    bool plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') || strchr("._-+=", *p);
    CRN_TRY(crn_str_putc(out, plain ? *p : '_'));
  }
  return crn_str_puts(out, ".npy");
}

// Written in place: a dump is thousands of files, and waiting for the disk after each would take minutes.
static cairn_status write_plain(const char *path, const crn_str *header, const void *data, size_t bytes) {
  FILE *file = fopen(path, "wb");
  if (!file) return CRN_FAIL(IO, "cannot create '%s': %s", path, strerror(errno));
  bool written = fwrite(header->data, 1, header->size, file) == header->size && fwrite(data, 1, bytes, file) == bytes;
  if (fclose(file) || !written) return CRN_FAIL(IO, "cannot write '%s': %s", path, strerror(errno));
  return CAIRN_OK;
}

cairn_status crn_array_write_npy(const cairn_ndarray *array, const char *directory, const char *name) {
  cairn_dtype as, dtype = cairn_ndarray_dtype(array);
  const char *type = npy_type(dtype, &as);
  crn_str path, header;
  crn_arena arena;
  crn_str_initialize(&path, NULL);
  crn_str_initialize(&header, NULL);
  crn_arena_initialize(&arena, NULL);
  void *data = NULL;
  int64_t n = cairn_ndarray_count(array);
  cairn_status status;
  CRN_TRY_GOTO(as == dtype ? read_elements(array, &arena, &data) : read_converted(array, &arena, as, &data, &n));
  CRN_TRY_GOTO(npy_path(&path, directory, name));
  CRN_TRY_GOTO(npy_header(&header, type, cairn_ndarray_shape(array), cairn_ndarray_rank(array)));
  status = write_plain(path.data, &header, data, (size_t)n * cairn_dtype_bytes(as));
done:
  crn_arena_deinitialize(&arena);
  crn_str_deinitialize(&path);
  crn_str_deinitialize(&header);
  return status;
}

cairn_status crn_array_get_range(const cairn_ndarray *array, crn_array_range *out) {
  crn_arena arena;
  crn_arena_initialize(&arena, NULL);
  void *data = NULL;
  int64_t n = 0, n_finite = 0;
  double sum = 0;
  *out = (crn_array_range){0};
  cairn_status status = read_converted(array, &arena, CAIRN_F64, &data, &n);
  for (int64_t i = 0; status == CAIRN_OK && i < n; i++) {
    double v = ((const double *)data)[i];
    if (!isfinite(v)) continue;
    if (n_finite == 0 || v < out->minimum) out->minimum = v;
    if (n_finite == 0 || v > out->maximum) out->maximum = v;
    sum += v;
    n_finite++;
  }
  if (n_finite) out->mean = sum / (double)n_finite;
  out->n_finite = n_finite;
  out->n_not_finite = n - n_finite;
  crn_arena_deinitialize(&arena);
  return status;
}
