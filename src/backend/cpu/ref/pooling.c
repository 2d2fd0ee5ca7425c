// Maxima and sums over windows of two or three spatial dimensions.
#include <math.h>

#include "backend/cpu/ref/move.h"
#include "backend/cpu/ref/ref.h"

typedef struct pool_job {
  const crn_tensor *x, *out;
  bool maximum;
  // Three spatial dimensions always; with two the outermost has size 1.
  int64_t in[3], in_step[3], count[3], size[3], stride[3], dilation[3];
  int64_t channels, image_step, channel_step;
} pool_job;

// One more element of a window. NaN stays in a maximum.
static double combine_floats(bool maximum, double total, double v) {
  if (!maximum) return total + v;
  return total != total || total >= v ? total : v;
}

// What a window behind the end holds: the lowest value of the type, which a maximum begins with.
static void store_empty(const pool_job *job, void *target) {
  cairn_dtype dtype = job->x->dtype;
  int bits = crn_dtype_bits(dtype);
  if (crn_dtype_is_float(dtype)) {
    crn_store_f64(dtype, target, job->maximum ? -INFINITY : 0);
  } else {
    bool is_signed = crn_dtype_class_of(dtype) == CRN_CLASS_SINT;
    crn_store_i64(dtype, target, job->maximum && is_signed ? (int64_t)(~UINT64_C(0) << (bits - 1)) : 0);
  }
}

static void pool_window(const pool_job *job, int64_t base, const int64_t *start, void *target) {
  cairn_dtype dtype = job->x->dtype;
  bool floats = crn_dtype_is_float(dtype), is_signed = crn_dtype_class_of(dtype) == CRN_CLASS_SINT, first = true;
  double total = 0;
  int64_t count = 0;
  // The last windows of ceil mode reach over the end: what is outside takes no part.
  for (int64_t a = 0, z = start[0]; a < job->size[0] && z < job->in[0]; a++, z += job->dilation[0]) {
    for (int64_t b = 0, y = start[1]; b < job->size[1] && y < job->in[1]; b++, y += job->dilation[1]) {
      for (int64_t c = 0, x = start[2]; c < job->size[2] && x < job->in[2]; c++, x += job->dilation[2]) {
        const void *element = crn_tensor_at(job->x, base + z * job->in_step[0] + y * job->in_step[1] + x * job->in_step[2]);
        if (floats) {
          double v = crn_load_f64(dtype, element);
          total = first ? v : combine_floats(job->maximum, total, v);
        } else {
          int64_t v = crn_load_i64(dtype, element);
          bool less = is_signed ? count < v : (uint64_t)count < (uint64_t)v;
          count = first ? v : job->maximum ? (less ? v : count) : (int64_t)((uint64_t)count + (uint64_t)v);
        }
        first = false;
      }
    }
  }
  if (first) {
    store_empty(job, target);
  } else if (floats) {
    crn_store_f64(dtype, target, total);
  } else {
    crn_store_i64(dtype, target, count);
  }
}

// The same for f32, without looking at the type of each element.
static void pool_window_f32(const pool_job *job, int64_t base, const int64_t *start, float *target) {
  const float *x = (const float *)job->x->data + base;
  bool first = true;
  double total = 0;
  for (int64_t a = 0, z = start[0]; a < job->size[0] && z < job->in[0]; a++, z += job->dilation[0]) {
    for (int64_t b = 0, y = start[1]; b < job->size[1] && y < job->in[1]; b++, y += job->dilation[1]) {
      const float *row = x + z * job->in_step[0] + y * job->in_step[1];
      for (int64_t c = 0, k = start[2]; c < job->size[2] && k < job->in[2]; c++, k += job->dilation[2]) {
        double v = (double)row[k * job->in_step[2]];
        total = first ? v : combine_floats(job->maximum, total, v);
        first = false;
      }
    }
  }
  *target = first && job->maximum ? -INFINITY : (float)total;
}

// Item = one row of results.
static void pool_rows(void *user, int64_t begin, int64_t end, int worker) {
  (void)worker;
  const pool_job *job = user;
  for (int64_t row = begin; row < end; row++) {
    int64_t y = row % job->count[1], z = row / job->count[1] % job->count[0], plane = row / job->count[1] / job->count[0];
    int64_t base = plane / job->channels * job->image_step + plane % job->channels * job->channel_step;
    for (int64_t x = 0; x < job->count[2]; x++) {
      int64_t start[3] = {z * job->stride[0], y * job->stride[1], x * job->stride[2]};
      void *target = crn_tensor_at(job->out, row * job->count[2] + x);
      if (job->x->dtype == CAIRN_F32) {
        pool_window_f32(job, base, start, target);
      } else {
        pool_window(job, base, start, target);
      }
    }
  }
}

// Entry `i` of a vector with one entry for each of `n` dimensions or one for all.
static cairn_status read_window_vector(const crn_kernel_args *args, int operand, int n, int64_t *out_values) {
  int64_t values[CAIRN_MAX_RANK * 2];
  int count;
  CRN_TRY(crn_ref_int_vector(args, operand, values, &count));
  out_values[0] = 1;
  for (int i = 0; i < n; i++) out_values[3 - n + i] = values[count == 1 ? 0 : i];
  return CAIRN_OK;
}

static cairn_status pool(const crn_kernel_args *args, bool maximum) {
  const crn_tensor *x = &args->operands[0], *out = &args->results[0];
  pool_job job = {.x = x, .out = out, .maximum = maximum, .in = {1, 1, 1}, .count = {1, 1, 1}};
  int n = x->rank - 2;
  if (crn_dtype_is_complex(x->dtype)) return CRN_FAIL(UNSUPPORTED, "%s of %s", crn_ref_name(args), cairn_dtype_name(x->dtype));
  CRN_TRY(read_window_vector(args, 1, n, job.size));
  CRN_TRY(read_window_vector(args, 2, n, job.stride));
  CRN_TRY(read_window_vector(args, 3, n, job.dilation));
  for (int i = 0; i < n; i++) {
    job.in[3 - n + i] = x->dims[i + 2];
    job.in_step[3 - n + i] = x->strides[i + 2];
    job.count[3 - n + i] = out->dims[i + 2];
  }
  for (int d = 0; d < 3; d++) {
    // With one element in a window its dilation means nothing and may be any number.
    if (job.size[d] == 1) job.dilation[d] = 1;
  }
  job.channels = x->dims[1];
  job.image_step = x->strides[0];
  job.channel_step = x->strides[1];
  int64_t total = crn_tensor_count(out);
  if (total == 0) return CAIRN_OK;
  int64_t work = job.count[2] * job.size[0] * job.size[1] * job.size[2];
  crn_pool_run(args->pool, total / job.count[2], crn_move_grain(work), pool_rows, &job);
  return CAIRN_OK;
}

cairn_status crn_ref_max_pool_2d(const crn_kernel_args *args) { return pool(args, true); }

cairn_status crn_ref_max_pool_3d(const crn_kernel_args *args) { return pool(args, true); }

cairn_status crn_ref_sum_pool_2d(const crn_kernel_args *args) { return pool(args, false); }

cairn_status crn_ref_sum_pool_3d(const crn_kernel_args *args) { return pool(args, false); }
