// Transposed convolutions: every input element adds its multiple of the kernel to the result. In f32 that is done for whole planes;
// f64 and complex numbers are added up one result after the other.
#include <string.h>

#include "backend/cpu/ref/elements.h"
#include "backend/cpu/ref/move.h"
#include "backend/cpu/ref/ref.h"
#include "base/checked.h"

typedef struct transposed_job {
  const crn_tensor *out;
  const float *x, *w;  // contiguous [N, Cin, z, y, x] and [Cin, Cout / groups, z, y, x]; with two dimensions z has size 1
  float *sums;         // one plane of the result for each worker
  int64_t in[3], size[3], kernel[3], stride[3], padding[3], dilation[3];
  const crn_tensor *wide_x, *wide_w;
  int64_t in_channels, out_channels, groups, in_plane, out_plane, kernel_plane;
} transposed_job;

// The kernel offsets of one dimension which bring input position `at` inside of the result: [first, last).
static void reach_of(const transposed_job *job, int d, int64_t at, int64_t *out_first, int64_t *out_last) {
  int64_t base = at * job->stride[d] - job->padding[d], step = job->dilation[d], first = 0, last = job->kernel[d];
  if (base < 0) first = (-base + step - 1) / step;
  int64_t room = job->size[d] - 1 - base;
  if (room < 0) {
    last = 0;
  } else if (room / step + 1 < last) {
    last = room / step + 1;
  }
  *out_first = first;
  *out_last = last;
}

// Adds one row of the input through one kernel row.
static void add_row(const transposed_job *job, const float *row, const float *kernel, float *sums) {
  for (int64_t x = 0; x < job->in[2]; x++) {
    int64_t first, last, base = x * job->stride[2] - job->padding[2];
    reach_of(job, 2, x, &first, &last);
    for (int64_t k = first; k < last; k++) sums[base + k * job->dilation[2]] += row[x] * kernel[k];
  }
}

static void add_channel(const transposed_job *job, const float *x, const float *kernel, float *sums) {
  for (int64_t z = 0; z < job->in[0]; z++) {
    int64_t z0, z1;
    reach_of(job, 0, z, &z0, &z1);
    for (int64_t kz = z0; kz < z1; kz++) {
      int64_t to_z = z * job->stride[0] - job->padding[0] + kz * job->dilation[0];
      for (int64_t y = 0; y < job->in[1]; y++) {
        int64_t y0, y1;
        reach_of(job, 1, y, &y0, &y1);
        for (int64_t ky = y0; ky < y1; ky++) {
          int64_t to_y = y * job->stride[1] - job->padding[1] + ky * job->dilation[1];
          add_row(job, x + (z * job->in[1] + y) * job->in[2], kernel + (kz * job->kernel[1] + ky) * job->kernel[2],
                  sums + (to_z * job->size[1] + to_y) * job->size[2]);
        }
      }
    }
  }
}

// Item = one plane (image, output channel) of the result.
static void transposed_planes(void *user, int64_t begin, int64_t end, int worker) {
  const transposed_job *job = user;
  float *sums = job->sums + worker * job->out_plane;
  int64_t group_out = job->out_channels / job->groups, group_in = job->in_channels / job->groups;
  for (int64_t plane = begin; plane < end; plane++) {
    int64_t image = plane / job->out_channels, channel = plane % job->out_channels, group = channel / group_out;
    memset(sums, 0, (size_t)job->out_plane * sizeof *sums);
    for (int64_t i = 0; i < group_in; i++) {
      int64_t from = group * group_in + i;
      add_channel(job, job->x + (image * job->in_channels + from) * job->in_plane,
                  job->w + (from * group_out + channel % group_out) * job->kernel_plane, sums);
    }
    crn_convert(CAIRN_F32, sums, job->out->dtype, crn_tensor_at(job->out, plane * job->out_plane), job->out_plane);
  }
}

// The input position that reaches `at` through kernel offset `k`; false when there is none.
static bool source_of(const transposed_job *job, int d, int64_t at, int64_t k, int64_t *out_at) {
  int64_t offset = at + job->padding[d] - k * job->dilation[d];
  *out_at = offset / job->stride[d];
  return offset >= 0 && offset % job->stride[d] == 0 && *out_at < job->in[d];
}

// Element offset of [first, second, z, y, x], where two-dimensional images have no z.
static int64_t offset_of(const crn_tensor *t, int64_t first, int64_t second, const int64_t *at) {
  int n = t->rank - 2;
  int64_t offset = first * t->strides[0] + second * t->strides[1];
  for (int d = 0; d < n; d++) offset += at[3 - n + d] * t->strides[d + 2];
  return offset;
}

static void one_result(const transposed_job *job, int64_t image, int64_t channel, const int64_t *at, double *sum) {
  const crn_tensor *x = job->wide_x, *w = job->wide_w;
  int64_t group_out = job->out_channels / job->groups, group_in = job->in_channels / job->groups, group = channel / group_out;
  for (int64_t tap = 0; tap < job->kernel_plane; tap++) {
    int64_t k[3] = {tap / (job->kernel[1] * job->kernel[2]), tap / job->kernel[2] % job->kernel[1], tap % job->kernel[2]}, from[3];
    bool reached = true;
    for (int d = 0; d < 3 && reached; d++) reached = source_of(job, d, at[d], k[d], &from[d]);
    for (int64_t i = 0; i < group_in && reached; i++) {
      double a[2], b[2];
      crn_load_pair(x->dtype, crn_tensor_at(x, offset_of(x, image, group * group_in + i, from)), a);
      crn_load_pair(w->dtype, crn_tensor_at(w, offset_of(w, group * group_in + i, channel % group_out, k)), b);
      if (crn_dtype_is_complex(x->dtype)) {
        crn_add_product(a, b, sum);
      } else {
        sum[0] += a[0] * b[0];
      }
    }
  }
}

static void wide_results(void *user, int64_t begin, int64_t end, int worker) {
  (void)worker;
  const transposed_job *job = user;
  for (int64_t i = begin; i < end; i++) {
    int64_t place = i % job->out_plane, plane = i / job->out_plane;
    int64_t at[3] = {place / (job->size[1] * job->size[2]), place / job->size[2] % job->size[1], place % job->size[2]};
    double sum[2] = {0, 0};
    one_result(job, plane / job->out_channels, plane % job->out_channels, at, sum);
    crn_store_pair(job->out->dtype, crn_tensor_at(job->out, i), sum);
  }
}

// A contiguous f32 copy of an operand in scratch memory.
static cairn_status load_f32(const crn_kernel_args *args, int operand, const float **out_values) {
  const crn_tensor *t = &args->operands[operand];
  int64_t n = crn_tensor_count(t);
  size_t own_bytes, bytes;
  void *own;
  float *values;
  if (!crn_shape_bytes(t->dtype, t->dims, t->rank, &own_bytes) || !crn_shape_bytes(CAIRN_F32, t->dims, t->rank, &bytes)) {
    return CRN_FAIL(OUT_OF_RANGE, "%s: operand %d is too large", crn_ref_name(args), operand);
  }
  CRN_TRY(args->scratch->take(args->scratch, own_bytes, &own));
  CRN_TRY(args->scratch->take(args->scratch, bytes, &values));
  crn_move_contiguous(args->pool, t, own);
  crn_convert(t->dtype, own, CAIRN_F32, values, n);
  *out_values = values;
  return CAIRN_OK;
}

static cairn_status read_vector(const crn_kernel_args *args, int operand, int n, int64_t absent, int64_t *out_values) {
  int64_t values[CAIRN_MAX_RANK * 2];
  int count;
  CRN_TRY(crn_ref_int_vector(args, operand, values, &count));
  out_values[0] = absent;
  for (int i = 0; i < n; i++) out_values[3 - n + i] = values[count == 1 ? 0 : i];
  return CAIRN_OK;
}

static int64_t product(const int64_t *v) { return v[0] * v[1] * v[2]; }

static cairn_status conv_transpose(const crn_kernel_args *args) {
  const crn_tensor *x = &args->operands[0], *w = &args->operands[1], *out = &args->results[0];
  transposed_job job = {.out = out, .in = {1, 1, 1}, .size = {1, 1, 1}, .kernel = {1, 1, 1}};
  int n = x->rank - 2;
  bool complex_numbers = crn_dtype_is_complex(x->dtype);
  if (!crn_dtype_is_float(x->dtype) && !complex_numbers)
    return CRN_FAIL(UNSUPPORTED, "%s of %s", crn_ref_name(args), cairn_dtype_name(x->dtype));
  CRN_TRY(read_vector(args, 2, n, 1, job.stride));
  CRN_TRY(read_vector(args, 3, n, 0, job.padding));
  CRN_TRY(read_vector(args, 4, n, 1, job.dilation));
  CRN_TRY(crn_ref_int_scalar(args, 6, &job.groups));
  for (int i = 0; i < n; i++) {
    job.in[3 - n + i] = x->dims[i + 2];
    job.size[3 - n + i] = out->dims[i + 2];
    job.kernel[3 - n + i] = w->dims[i + 2];
  }
  job.in_channels = x->dims[1];
  job.out_channels = out->dims[1];
  job.in_plane = product(job.in);
  job.out_plane = product(job.size);
  job.kernel_plane = product(job.kernel);
  if (crn_tensor_count(out) == 0) return CAIRN_OK;
  if (x->dtype == CAIRN_F64 || complex_numbers) {
    job.wide_x = x;
    job.wide_w = w;
    crn_pool_run(args->pool, crn_tensor_count(out), 4096 / (job.in_channels * job.kernel_plane + 1) + 1, wide_results, &job);
    return CAIRN_OK;
  }
  CRN_TRY(load_f32(args, 0, &job.x));
  CRN_TRY(load_f32(args, 1, &job.w));
  size_t sums;
  if (!crn_mul_size((size_t)job.out_plane, (size_t)crn_pool_threads(args->pool) * sizeof *job.sums, &sums)) {
    return CRN_FAIL(OUT_OF_RANGE, "%s: the result is too large", crn_ref_name(args));
  }
  CRN_TRY(args->scratch->take(args->scratch, sums, &job.sums));
  crn_pool_run(args->pool, out->dims[0] * job.out_channels, 1, transposed_planes, &job);
  return CAIRN_OK;
}

cairn_status crn_ref_conv_transpose2d(const crn_kernel_args *args) { return conv_transpose(args); }

cairn_status crn_ref_conv_transpose3d(const crn_kernel_args *args) { return conv_transpose(args); }
