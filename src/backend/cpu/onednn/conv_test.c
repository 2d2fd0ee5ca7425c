// Convolutions through oneDNN against the reference, which is the oracle.
#include "backend/cpu/onednn/library.h"
#include "backend/cpu/ref/ref_testing.h"

typedef struct shape {
  int spatial;
  int64_t n, channels, outputs, groups, in[3], kernel[3], stride, dilation;
} shape;

static const shape shapes[] = {
    {2, 1, 32, 64, 1, {30, 31}, {3, 3}, 1, 1},  {2, 3, 16, 48, 1, {33, 35}, {3, 3}, 2, 1},      {2, 2, 3, 64, 1, {60, 61}, {7, 7}, 2, 1},
    {2, 1, 64, 130, 1, {14, 14}, {1, 1}, 1, 1}, {2, 2, 96, 96, 96, {40, 40}, {3, 3}, 1, 1},     {2, 1, 32, 64, 4, {30, 30}, {3, 3}, 1, 2},
    {2, 1, 20, 30, 5, {40, 40}, {5, 3}, 1, 1},  {3, 2, 8, 16, 1, {6, 14, 13}, {3, 3, 2}, 1, 1}, {2, 4, 64, 64, 1, {56, 2}, {3, 1}, 1, 1},
};

typedef struct image {
  crn_tensor x, w, out;
  uint32_t stride[3], dilation[3], groups;
} image;

static crn_tensor random_tensor(cairn_dtype dtype, const int64_t *dims, int rank, uint32_t *seed) {
  crn_tensor t = crn_tensor_make(dtype, dims, rank, NULL);
  int64_t n = crn_tensor_count(&t);
  t.data = malloc((size_t)n * cairn_dtype_bytes(dtype));
  assert_non_null(t.data);
  for (int64_t i = 0; i < n; i++) crn_store_f64(dtype, crn_tensor_at(&t, i), (double)(int32_t)(test_random(seed) << 8) * 0x1p-31);
  return t;
}

static void make(const shape *s, cairn_dtype dtype, image *m) {
  uint32_t seed = 7;
  int64_t x[5] = {s->n, s->channels}, w[5] = {s->outputs, s->channels / s->groups}, y[5] = {s->n, s->outputs};
  for (int d = 0; d < s->spatial; d++) {
    x[d + 2] = s->in[d];
    w[d + 2] = s->kernel[d];
    assert_true(crn_window_count(s->in[d], s->kernel[d], s->stride, s->dilation, &y[d + 2]));
    m->stride[d] = (uint32_t)s->stride;
    m->dilation[d] = (uint32_t)s->dilation;
  }
  m->groups = (uint32_t)s->groups;
  m->x = random_tensor(dtype, x, s->spatial + 2, &seed);
  m->w = random_tensor(dtype, w, s->spatial + 2, &seed);
  m->out = random_tensor(dtype, y, s->spatial + 2, &seed);
}

static void release(image *m) {
  test_release(&m->x, 1);
  test_release(&m->w, 1);
  test_release(&m->out, 1);
}

static cairn_status run(image *m, crn_kernel_fn kernel, crn_pool *pool) {
  int64_t n = m->x.rank - 2;
  crn_tensor operands[5] = {m->x, m->w, crn_tensor_make(CAIRN_UI32, &n, 1, m->stride), crn_tensor_make(CAIRN_UI32, &n, 1, m->dilation),
                            crn_tensor_make(CAIRN_UI32, NULL, 0, &m->groups)};
  test_scratch scratch = {.base = {test_take}};
  crn_kernel_args args = {.id = n == 3 ? CRN_OP_conv3d : CRN_OP_conv2d,
                          .n_operands = 5,
                          .operands = operands,
                          .n_results = 1,
                          .results = &m->out,
                          .pool = pool,
                          .scratch = &scratch.base};
  cairn_status status = kernel(&args);
  for (int i = 0; i < scratch.n; i++) free(scratch.blocks[i]);
  return status;
}

static crn_tensor copy_of(const crn_tensor *t) {
  crn_tensor c = *t;
  size_t bytes = (size_t)crn_tensor_count(t) * cairn_dtype_bytes(t->dtype);
  c.data = malloc(bytes);
  assert_non_null(c.data);
  memcpy(c.data, t->data, bytes);
  return c;
}

static void compare(const shape *s, cairn_dtype dtype) {
  image m;
  make(s, dtype, &m);
  assert_int_equal(run(&m, crn_ref_kernel_of(s->spatial == 3 ? CRN_OP_conv3d : CRN_OP_conv2d), NULL), CAIRN_OK);
  crn_tensor wanted = copy_of(&m.out);
  cairn_status status = run(&m, crn_onednn_conv, NULL);
  if (status != CAIRN_OK) {
    char text[300];
    cairn_last_error_text(text, sizeof text);
    fail_msg("%lld channels to %lld of %s: %s", (long long)s->channels, (long long)s->outputs, cairn_dtype_name(dtype), text);
  }
  // bf16 is rounded once, so it may differ by one unit in the last place.
  double unit = dtype == CAIRN_F32 ? 2e-6 : 0x1p-7;
  for (int64_t i = 0; i < crn_tensor_count(&wanted); i++) {
    double a = crn_load_f64(dtype, crn_tensor_at(&m.out, i)), b = crn_load_f64(dtype, crn_tensor_at(&wanted, i));
    if (fabs(a - b) > unit * (4 + fabs(b))) fail_msg("element %lld is %.9g, the reference gives %.9g", (long long)i, a, b);
  }
  test_release(&wanted, 1);
  release(&m);
}

static void agrees_with_the_reference(void **state) {
  (void)state;
  if (!crn_onednn_available()) skip();
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    compare(&shapes[i], CAIRN_F32);
    compare(&shapes[i], CAIRN_BF16);
  }
}

static void bits_depend_on_neither_batch_nor_threads(void **state) {
  (void)state;
  if (!crn_onednn_available()) skip();
  crn_pool *pool;
  assert_int_equal(crn_pool_create(crn_default_allocator(), 3, &pool), CAIRN_OK);
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    image m;
    make(&shapes[i], CAIRN_F32, &m);
    assert_int_equal(run(&m, crn_onednn_conv, NULL), CAIRN_OK);
    crn_tensor all = copy_of(&m.out);
    assert_int_equal(run(&m, crn_onednn_conv, pool), CAIRN_OK);
    size_t bytes = (size_t)crn_tensor_count(&all) * sizeof(float);
    assert_memory_equal(all.data, m.out.data, bytes);
    // The last image alone.
    image last = m;
    int64_t n = m.x.dims[0];
    last.x.data = crn_tensor_at(&m.x, (n - 1) * m.x.strides[0]);
    last.x.dims[0] = last.out.dims[0] = 1;
    assert_int_equal(run(&last, crn_onednn_conv, pool), CAIRN_OK);
    assert_memory_equal(crn_tensor_at(&all, (n - 1) * all.strides[0]), m.out.data, bytes / (size_t)n);
    test_release(&all, 1);
    release(&m);
  }
  crn_pool_destroy(pool);
}

// An input with its dimensions turned, and one whose rows lie apart.
static void takes_strides(void **state) {
  (void)state;
  if (!crn_onednn_available()) skip();
  image m;
  make(&shapes[0], CAIRN_F32, &m);
  crn_tensor plain = m.x, wide = plain;
  wide.data = malloc((size_t)crn_tensor_count(&plain) * sizeof(float));
  assert_non_null(wide.data);
  // Channels last.
  wide.strides[1] = 1;
  wide.strides[3] = plain.dims[1];
  wide.strides[2] = plain.dims[1] * plain.dims[3];
  wide.strides[0] = plain.strides[0];
  crn_tensor_copy(&plain, &wide);
  assert_int_equal(run(&m, crn_onednn_conv, NULL), CAIRN_OK);
  crn_tensor wanted = copy_of(&m.out);
  m.x = wide;
  assert_int_equal(run(&m, crn_onednn_conv, NULL), CAIRN_OK);
  assert_memory_equal(wanted.data, m.out.data, (size_t)crn_tensor_count(&wanted) * sizeof(float));
  // A reversed view is left to the reference.
  m.x.strides[2] = -m.x.strides[2];
  assert_int_equal(run(&m, crn_onednn_conv, NULL), CAIRN_UNSUPPORTED);
  m.x = plain;
  test_release(&wide, 1);
  test_release(&wanted, 1);
  release(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(agrees_with_the_reference),
                                     cmocka_unit_test(bits_depend_on_neither_batch_nor_threads), cmocka_unit_test(takes_strides)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
