// Convolutions of f32 and bf16 through oneDNN. Each image and each block of output channels is computed by one thread with a
// primitive of the same shape, so that the bits depend neither on the batch nor on the number of threads.
#include "backend/cpu/onednn/library.h"

#ifdef CAIRN_HAVE_ONEDNN
#include <string.h>

#include "backend/cpu/ref/ref.h"
#include "base/checked.h"

// Below so many products the reference is done before a primitive is made.
enum { MAX_SPATIAL = 3, MAX_DIMS = 6, LEAST_PRODUCTS = 1 << 20, BLOCK_CHANNELS = 64, ALIGN = 64 };

/// A tensor in the layout of the caller and in that of the primitive.
typedef struct side {
  dnnl_memory_desc_t given, wanted;
  dnnl_primitive_t reorder;  ///< between the two, NULL when they are the same
  size_t bytes;              ///< of the wanted layout
} side;

typedef struct conv {
  const crn_onednn *lib;
  const crn_tensor *x, *w, *y;
  int spatial;
  bool grouped;                   ///< the weight has one more dimension in front
  int64_t groups, blocks;         ///< in all; jobs of an image
  int64_t block_groups, outputs;  ///< of a job: groups, and output channels of each of them
  int64_t stride[MAX_SPATIAL], dilation[MAX_SPATIAL];
  side source, weight, result;
  dnnl_primitive_t primitive;
  dnnl_memory_desc_t scratch;
  size_t scratch_bytes, worker_bytes;
  char *memory;         ///< worker_bytes for each worker
  char *shared_source;  ///< the reordered input of one image that all jobs of it share, else NULL
  int64_t image;        ///< of the shared source
  dnnl_status_t failed;
} conv;

static cairn_status status_of(const crn_kernel_args *args, dnnl_status_t s) {
  if (s == dnnl_success) return CAIRN_OK;
  if (s == dnnl_out_of_memory) return CRN_FAIL(OUT_OF_MEMORY, "%s: no memory for oneDNN", crn_ref_name(args));
  return CRN_FAIL(UNSUPPORTED, "%s: oneDNN gives status %d", crn_ref_name(args), (int)s);
}

#define DNNL_TRY(expr)                 \
  do {                                 \
    dnnl_status_t s_ = (expr);         \
    if (s_ != dnnl_success) return s_; \
  } while (0)

// --- which convolutions --------------------------------------------------------------------------------------------------

static bool has_plain_strides(const crn_tensor *t) {
  for (int d = 0; d < t->rank; d++) {
    if (t->dims[d] == 0 || (t->dims[d] > 1 && t->strides[d] < 1)) return false;
  }
  return true;
}

// The largest divisor of the output channels that fills a block, so that all blocks have one shape.
static int64_t block_of(int64_t channels) {
  for (int64_t n = BLOCK_CHANNELS; n >= 16; n--) {
    if (channels % n == 0) return n;
  }
  return channels;
}

static cairn_status describe(const crn_kernel_args *args, conv *c) {
  c->x = &args->operands[0], c->w = &args->operands[1], c->y = &args->results[0];
  c->spatial = c->x->rank - 2;
  bool type = c->x->dtype == CAIRN_F32 || c->x->dtype == CAIRN_BF16;
  if (!type || c->w->dtype != c->x->dtype || !has_plain_strides(c->x) || !has_plain_strides(c->w) || !has_plain_strides(c->y))
    return CRN_FAIL(UNSUPPORTED, "%s: not for oneDNN", crn_ref_name(args));
  CRN_TRY(crn_ref_spatial(args, 2, c->spatial, c->stride));
  CRN_TRY(crn_ref_spatial(args, 3, c->spatial, c->dilation));
  CRN_TRY(crn_ref_int_scalar(args, 4, &c->groups));
  int64_t products = crn_tensor_count(c->w), outputs = c->w->dims[0] / c->groups;
  for (int d = 0; d < c->spatial; d++) {
    products *= c->y->dims[d + 2];
    if (c->y->dims[d + 2] == 1) c->stride[d] = 1;
    if (c->w->dims[d + 2] == 1) c->dilation[d] = 1;
    if (c->stride[d] > INT32_MAX || c->dilation[d] > INT32_MAX) products = 0;
  }
  if (products < LEAST_PRODUCTS) return CRN_FAIL(UNSUPPORTED, "%s: too small for oneDNN", crn_ref_name(args));
  c->grouped = c->groups > 1;
  if (c->grouped) {
    c->block_groups = outputs < BLOCK_CHANNELS && c->groups % (BLOCK_CHANNELS / outputs) == 0 ? BLOCK_CHANNELS / outputs : c->groups;
    c->outputs = outputs;
    c->blocks = c->groups / c->block_groups;
  } else {
    c->block_groups = 1;
    c->outputs = block_of(outputs);
    c->blocks = outputs / c->outputs;
  }
  return CAIRN_OK;
}

// --- making the primitives -------------------------------------------------------------------------------------------------

static dnnl_data_type_t type_of(cairn_dtype dtype) { return dtype == CAIRN_F32 ? dnnl_f32 : dnnl_bf16; }

// The part of a tensor one job works on: dimension `axis` has `n` elements, and in front stands 1, or the groups of a weight.
static dnnl_status_t set_given(const conv *c, side *s, const crn_tensor *t, int axis, int64_t n, bool is_weight) {
  dnnl_dims_t dims, strides;
  int rank = 0;
  if (is_weight && c->grouped) {
    dims[rank] = c->block_groups;
    strides[rank++] = c->outputs * t->strides[0];
  }
  for (int d = 0; d < t->rank; d++) {
    dims[rank] = d == axis ? n : d == 0 ? 1 : t->dims[d];
    strides[rank] = dims[rank] == 1 && t->strides[d] < 1 ? 1 : t->strides[d];
    rank++;
  }
  DNNL_TRY(c->lib->memory_desc_init_by_strides(&s->given, rank, dims, type_of(t->dtype), strides));
  return c->lib->memory_desc_init_by_tag(&s->wanted, rank, dims, type_of(t->dtype), dnnl_format_tag_any);
}

static dnnl_status_t make_reorder(const conv *c, side *s, const dnnl_memory_desc_t *wanted, bool back) {
  s->wanted = *wanted;
  s->bytes = (c->lib->memory_desc_get_size(wanted) + ALIGN - 1) / ALIGN * ALIGN;
  if (!memcmp(&s->wanted, &s->given, sizeof s->given)) return dnnl_success;
  dnnl_primitive_desc_t desc;
  const dnnl_memory_desc_t *from = back ? &s->wanted : &s->given, *to = back ? &s->given : &s->wanted;
  DNNL_TRY(c->lib->reorder_primitive_desc_create(&desc, from, c->lib->engine, to, c->lib->engine, NULL));
  dnnl_status_t status = c->lib->primitive_create(&s->reorder, desc);
  c->lib->primitive_desc_destroy(desc);
  return status;
}

static dnnl_status_t describe_primitive(conv *c, dnnl_primitive_desc_t *out) {
  dnnl_convolution_desc_t desc;
  dnnl_dims_t stride, dilation, none = {0};
  dnnl_primitive_attr_t attr;
  for (int d = 0; d < c->spatial; d++) stride[d] = c->stride[d], dilation[d] = c->dilation[d] - 1;
  DNNL_TRY(c->lib->dilated_convolution_forward_desc_init(&desc, dnnl_forward_inference, dnnl_convolution_direct, &c->source.wanted,
                                                         &c->weight.wanted, NULL, &c->result.wanted, stride, dilation, none, none));
  DNNL_TRY(c->lib->primitive_attr_create(&attr));
  dnnl_status_t status = c->lib->primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
  if (status == dnnl_success) status = c->lib->primitive_desc_create(out, &desc, attr, c->lib->engine, NULL);
  c->lib->primitive_attr_destroy(attr);
  return status;
}

static dnnl_status_t make(conv *c) {
  int64_t channels = c->block_groups * c->w->dims[1], outputs = c->block_groups * c->outputs;
  DNNL_TRY(set_given(c, &c->source, c->x, 1, c->grouped ? channels : c->x->dims[1], false));
  DNNL_TRY(set_given(c, &c->weight, c->w, 0, c->outputs, true));
  DNNL_TRY(set_given(c, &c->result, c->y, 1, outputs, false));
  dnnl_primitive_desc_t desc;
  DNNL_TRY(describe_primitive(c, &desc));
  dnnl_status_t status = c->lib->primitive_create(&c->primitive, desc);
  if (status == dnnl_success) status = make_reorder(c, &c->source, c->lib->primitive_desc_query_md(desc, dnnl_query_src_md, 0), false);
  if (status == dnnl_success) status = make_reorder(c, &c->weight, c->lib->primitive_desc_query_md(desc, dnnl_query_weights_md, 0), false);
  if (status == dnnl_success) status = make_reorder(c, &c->result, c->lib->primitive_desc_query_md(desc, dnnl_query_dst_md, 0), true);
  c->scratch = *c->lib->primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
  c->scratch_bytes = (c->lib->memory_desc_get_size(&c->scratch) + ALIGN - 1) / ALIGN * ALIGN;
  c->worker_bytes = c->source.bytes + c->weight.bytes + c->result.bytes + c->scratch_bytes;
  c->lib->primitive_desc_destroy(desc);
  return status;
}

static void destroy(conv *c) {
  dnnl_primitive_t all[] = {c->primitive, c->source.reorder, c->weight.reorder, c->result.reorder};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    if (all[i]) c->lib->primitive_destroy(all[i]);
  }
}

// --- running ----------------------------------------------------------------------------------------------------------------

static dnnl_status_t execute(const conv *c, dnnl_stream_t stream, dnnl_primitive_t primitive, int n, const int *names,
                             const dnnl_memory_desc_t *const *descs, void *const *data) {
  dnnl_exec_arg_t args[4];
  dnnl_status_t status = dnnl_success;
  int made = 0;
  for (; made < n && status == dnnl_success; made++) {
    args[made].arg = names[made];
    status = c->lib->memory_create(&args[made].memory, descs[made], c->lib->engine, data[made]);
    if (status != dnnl_success) break;
  }
  if (status == dnnl_success) status = c->lib->primitive_execute(primitive, stream, n, args);
  if (status == dnnl_success) status = c->lib->stream_wait(stream);
  for (int i = 0; i < made; i++) c->lib->memory_destroy(args[i].memory);
  return status;
}

static dnnl_status_t reorder(const conv *c, dnnl_stream_t stream, const side *s, void *from, void *to, bool back) {
  static const int names[] = {DNNL_ARG_FROM, DNNL_ARG_TO};
  const dnnl_memory_desc_t *descs[] = {back ? &s->wanted : &s->given, back ? &s->given : &s->wanted};
  return execute(c, stream, s->reorder, 2, names, descs, (void *[]){from, to});
}

static dnnl_status_t run_block(const conv *c, dnnl_stream_t stream, int64_t image, int64_t block, char *memory) {
  static const int names[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD};
  const dnnl_memory_desc_t *descs[] = {&c->source.wanted, &c->weight.wanted, &c->result.wanted, &c->scratch};
  int64_t first = c->grouped ? block * c->block_groups : 0, output = block * c->block_groups * c->outputs;
  void *x = crn_tensor_at(c->x, image * c->x->strides[0] + first * c->w->dims[1] * c->x->strides[1]);
  void *w = crn_tensor_at(c->w, output * c->w->strides[0]);
  void *y = crn_tensor_at(c->y, image * c->y->strides[0] + output * c->y->strides[1]);
  char *own_w = memory + c->source.bytes, *own_y = own_w + c->weight.bytes;
  void *data[] = {x, w, c->result.reorder ? own_y : y, own_y + c->result.bytes};
  if (c->source.reorder) {
    data[0] = c->shared_source ? c->shared_source : memory;
    // The blocks of an image that one job computes read the same input, which needs to be put in order once.
    if (!c->shared_source && (c->grouped || block == 0)) DNNL_TRY(reorder(c, stream, &c->source, x, memory, false));
  }
  if (c->weight.reorder) {
    data[1] = own_w;
    DNNL_TRY(reorder(c, stream, &c->weight, w, own_w, false));
  }
  DNNL_TRY(execute(c, stream, c->primitive, 4, names, descs, data));
  return c->result.reorder ? reorder(c, stream, &c->result, own_y, y, true) : dnnl_success;
}

// Jobs with one thread of the library each, whatever the calling thread had set for itself.
static dnnl_status_t run_alone(conv *c, int64_t begin, int64_t end, char *memory, bool by_image) {
  dnnl_stream_t stream;
  int before = c->lib->get_threads();
  c->lib->set_threads(1);
  dnnl_status_t status = c->lib->stream_create(&stream, c->lib->engine, dnnl_stream_default_flags);
  if (status == dnnl_success) {
    for (int64_t i = begin; i < end && status == dnnl_success; i++) {
      for (int64_t b = by_image ? 0 : i; b < (by_image ? c->blocks : i + 1) && status == dnnl_success; b++)
        status = run_block(c, stream, by_image ? i : c->image, b, memory);
    }
    c->lib->stream_destroy(stream);
  }
  c->lib->set_threads(before);
  return status;
}

static void note(conv *c, dnnl_status_t status) {
  if (status != dnnl_success) __atomic_store_n(&c->failed, status, __ATOMIC_RELAXED);
}

static void run_images(void *user, int64_t begin, int64_t end, int worker) {
  conv *c = user;
  note(c, run_alone(c, begin, end, c->memory + c->worker_bytes * (size_t)worker, true));
}

static void run_blocks(void *user, int64_t begin, int64_t end, int worker) {
  conv *c = user;
  note(c, run_alone(c, begin, end, c->memory + c->worker_bytes * (size_t)worker, false));
}

static cairn_status share_source(const crn_kernel_args *args, conv *c) {
  if (c->grouped || !c->source.reorder) return CAIRN_OK;
  dnnl_stream_t stream;
  char *shared;
  CRN_TRY(args->scratch->take(args->scratch, c->source.bytes, &shared));
  CRN_TRY(status_of(args, c->lib->stream_create(&stream, c->lib->engine, dnnl_stream_default_flags)));
  dnnl_status_t s = reorder(c, stream, &c->source, c->x->data, shared, false);
  c->lib->stream_destroy(stream);
  c->shared_source = shared;
  return status_of(args, s);
}

static cairn_status run(const crn_kernel_args *args, conv *c) {
  size_t bytes;
  if (!crn_mul_size(c->worker_bytes, (size_t)crn_pool_threads(args->pool), &bytes))
    return CRN_FAIL(OUT_OF_RANGE, "%s: the operands are too large", crn_ref_name(args));
  CRN_TRY(args->scratch->take(args->scratch, bytes, &c->memory));
  if (c->x->dims[0] > 1) {
    crn_pool_run(args->pool, c->x->dims[0], 1, run_images, c);
  } else {
    CRN_TRY(share_source(args, c));
    crn_pool_run(args->pool, c->blocks, 1, run_blocks, c);
  }
  return status_of(args, c->failed);
}

cairn_status crn_onednn_conv(const crn_kernel_args *args) {
  conv c = {.lib = crn_onednn_get(), .failed = dnnl_success};
  if (!c.lib) return CRN_FAIL(UNSUPPORTED, "%s: oneDNN is not there", crn_ref_name(args));
  CRN_TRY(describe(args, &c));
  int before = c.lib->get_threads();
  c.lib->set_threads(1);
  cairn_status status = status_of(args, make(&c));
  if (status == CAIRN_OK) status = run(args, &c);
  destroy(&c);
  c.lib->set_threads(before);
  return status;
}
#endif
