// reduce and reduce_index: regions that are usual reductions, regions that are not, and regions that are no elementwise code.
#include "backend/cpu/ref/ref_testing.h"
#include "program/builder.h"

typedef crn_value *(*body_fn)(crn_builder *b, crn_value *p, crn_value *q);

typedef struct region_case {
  crn_program *program;
  crn_builder b;
  crn_region region;
  crn_block *block;
} region_case;

static void build(region_case *c, cairn_dtype dtype, body_fn body) {
  assert_int_equal(crn_program_create(crn_default_allocator(), &c->program), CAIRN_OK);
  crn_builder_begin(&c->b, c->program, "main");
  const crn_type *scalar = crn_build_tensor_type(&c->b, dtype, NULL, 0);
  c->block = crn_build_region_begin(&c->b, (const crn_type *[]){scalar, scalar}, 2);
  assert_non_null(c->block);
  crn_value *y = body(&c->b, &c->block->arguments[0], &c->block->arguments[1]);
  assert_non_null(y);
  crn_build_region_end(&c->b, CRN_OP_yield, &y, 1);
  assert_int_equal(c->b.status, CAIRN_OK);
  c->region = (crn_region){1, &c->block};
}

static cairn_status run(crn_op_id id, cairn_dtype dtype, body_fn body, const crn_tensor *operands, int n, crn_tensor *out) {
  region_case c;
  build(&c, dtype, body);
  *out = (crn_tensor){.rank = -1};
  crn_infer_args infer = {.id = id, .n_operands = n, .operands = operands, .n_results = 1, .results = out};
  cairn_status status = crn_infer_of(id)(&infer);
  if (status == CAIRN_OK) {
    size_t bytes;
    assert_true(crn_shape_bytes(out->dtype, out->dims, out->rank, &bytes));
    out->data = malloc(bytes ? bytes : 1);
    assert_non_null(out->data);
    memset(out->data, 0xA5, bytes);
    crn_tensor_set_contiguous(out);
    crn_kernel_args args = {.id = id, .region = &c.region, .n_operands = n, .operands = operands, .n_results = 1, .results = out};
    status = test_compute(&(test_call){.id = id}, &args);
    if (status != CAIRN_OK) test_release(out, 1);
  }
  crn_program_destroy(c.program);
  return status;
}

static crn_value *add(crn_builder *b, crn_value *p, crn_value *q) { return crn_build_binary(b, CRN_OP_add, p, q); }
static crn_value *add_turned(crn_builder *b, crn_value *p, crn_value *q) { return crn_build_binary(b, CRN_OP_broadcasting_add, q, p); }
static crn_value *subtract(crn_builder *b, crn_value *p, crn_value *q) { return crn_build_binary(b, CRN_OP_sub, p, q); }
static crn_value *multiply(crn_builder *b, crn_value *p, crn_value *q) { return crn_build_binary(b, CRN_OP_mul, p, q); }
static crn_value *largest(crn_builder *b, crn_value *p, crn_value *q) { return crn_build_binary(b, CRN_OP_maximum, p, q); }
static crn_value *either(crn_builder *b, crn_value *p, crn_value *q) { return crn_build_binary(b, CRN_OP_or, p, q); }
static crn_value *one_only(crn_builder *b, crn_value *p, crn_value *q) { return crn_build_binary(b, CRN_OP_xor, p, q); }
static crn_value *greater(crn_builder *b, crn_value *p, crn_value *q) { return crn_build_binary(b, CRN_OP_greater, q, p); }
static crn_value *smaller(crn_builder *b, crn_value *p, crn_value *q) { return crn_build_binary(b, CRN_OP_greater, p, q); }

// p + 2q by way of vectors: not elementwise, so one pair after the other.
static crn_value *by_vectors(crn_builder *b, crn_value *p, crn_value *q) {
  int32_t one = 1;
  crn_value *shape = crn_build_i32(b, &one, 1), *none = crn_build_i32(b, &one, 0);
  crn_value *parts[2] = {crn_build_binary(b, CRN_OP_reshape, p, shape), crn_build_binary(b, CRN_OP_reshape, q, shape)};
  crn_value *twice = crn_build_binary(b, CRN_OP_add, parts[1], parts[1]);
  crn_value *sum = crn_build_binary(b, CRN_OP_reduce_sum, crn_build_concat(b, 0, (crn_value *[]){parts[0], twice}, 2),
                                    crn_build_i32(b, (int32_t[]){0}, 1));
  return crn_build_binary(b, CRN_OP_reshape, sum, none);
}

static void usual_reductions(void **state) {
  (void)state;
  crn_tensor out, x = shape_as(F32(1, 2, 3, 10, 20, 40), DIMS(2, 3));
  assert_int_equal(run(CRN_OP_reduce, CAIRN_F32, add, OPERANDS(x, I32(1), F32_SCALAR(100)), &out), CAIRN_OK);
  assert_dims(&out, DIMS(2, 1));
  assert_values(&out, VALUES(106, 170));
  assert_int_equal(run(CRN_OP_reduce, CAIRN_F32, add_turned, OPERANDS(x, I32(0, -1), F32_SCALAR(0)), &out), CAIRN_OK);
  assert_values(&out, VALUES(76));
  assert_int_equal(run(CRN_OP_reduce, CAIRN_F32, multiply, OPERANDS(x, I32(0), F32_SCALAR(-1)), &out), CAIRN_OK);
  assert_values(&out, VALUES(-10, -40, -120));
  assert_int_equal(run(CRN_OP_reduce, CAIRN_F32, largest, OPERANDS(x, I32(1), F32_SCALAR(30)), &out), CAIRN_OK);
  assert_values(&out, VALUES(30, 40));
  // No elements: the first value stays.
  crn_tensor empty = crn_tensor_make(CAIRN_F32, DIMS(2, 0), x.data);
  assert_int_equal(run(CRN_OP_reduce, CAIRN_F32, add, OPERANDS(empty, I32(1), F32_SCALAR(7)), &out), CAIRN_OK);
  assert_values(&out, VALUES(7, 7));
  assert_int_equal(run(CRN_OP_reduce, CAIRN_F32, subtract, OPERANDS(empty, I32(1), F32_SCALAR(7)), &out), CAIRN_OK);
  assert_values(&out, VALUES(7, 7));
}

static void narrow_floats_add_up_wide(void **state) {
  (void)state;
  enum { N = 3000 };
  uint16_t ones[N], first = 0;
  for (int i = 0; i < N; i++) crn_store_f64(CAIRN_F16, &ones[i], 1);
  crn_store_f64(CAIRN_F16, &first, 2048);
  crn_tensor out, x = over(CAIRN_F16, ones, N);
  assert_int_equal(run(CRN_OP_reduce, CAIRN_F16, add, OPERANDS(x, I32(0), crn_tensor_make(CAIRN_F16, NULL, 0, &first)), &out), CAIRN_OK);
  assert_values(&out, VALUES(5048));
}

static void other_regions(void **state) {
  (void)state;
  crn_tensor out, x = shape_as(F32(1, 2, 3, 10, 20, 40), DIMS(2, 3));
  // The first argument is what was reduced so far.
  assert_int_equal(run(CRN_OP_reduce, CAIRN_F32, subtract, OPERANDS(x, I32(1), F32_SCALAR(100)), &out), CAIRN_OK);
  assert_values(&out, VALUES(94, 30));
  assert_int_equal(run(CRN_OP_reduce, CAIRN_F32, by_vectors, OPERANDS(x, I32(0), F32_SCALAR(1)), &out), CAIRN_OK);
  assert_values(&out, VALUES(23, 45, 87));
  crn_tensor bits = shape_as(over(CAIRN_BOOL, (uint8_t[]){1, 0, 1, 1, 0, 0}, 6), DIMS(2, 3));
  assert_int_equal(run(CRN_OP_reduce, CAIRN_BOOL, one_only, OPERANDS(bits, I32(0), BOOL_SCALAR(1)), &out), CAIRN_OK);
  assert_values(&out, VALUES(1, 1, 0));
  assert_int_equal(run(CRN_OP_reduce, CAIRN_BOOL, either, OPERANDS(bits, I32(1), BOOL_SCALAR(0)), &out), CAIRN_OK);
  assert_values(&out, VALUES(1, 1));
  // More results than are evaluated at once, from a view with strides.
  enum { N = 700 };
  int32_t many[2 * N];
  for (int i = 0; i < 2 * N; i++) many[i] = i;
  crn_tensor turned = crn_tensor_make(CAIRN_SI32, DIMS(N, 2), many);
  assert_int_equal(run(CRN_OP_reduce, CAIRN_SI32, subtract, OPERANDS(turned, I32(1), I32_SCALAR(1)), &out), CAIRN_OK);
  for (int i = 0; i < N; i++) assert_int_equal(((int32_t *)out.data)[i], 1 - 2 * i - (2 * i + 1));
  test_release(&out, 1);
  // Products of complex numbers have no direct form: (1 + 2i)(3 - i) = 5 + 5i.
  crn_tensor c = crn_tensor_make(CAIRN_C64, DIMS(2), (float[]){1, 2, 3, -1});
  assert_int_equal(run(CRN_OP_reduce, CAIRN_C64, multiply, OPERANDS(c, I32(0), crn_tensor_make(CAIRN_C64, NULL, 0, (float[]){1, 0})), &out),
                   CAIRN_OK);
  assert_true(((float *)out.data)[0] == 5 && ((float *)out.data)[1] == 5);
  test_release(&out, 1);
}

static void places(void **state) {
  (void)state;
  crn_tensor out, x = shape_as(F32(1, 5, 3, 5, 10, -20, 40, 2), DIMS(2, 4)), zero = over(CAIRN_UI32, (uint32_t[]){0}, 1);
  zero.rank = 0;
  assert_int_equal(run(CRN_OP_reduce_index, CAIRN_F32, greater, OPERANDS(x, I32_SCALAR(-1), F32_SCALAR(-INFINITY), zero), &out), CAIRN_OK);
  assert_dims(&out, DIMS(2, 1));
  assert_int_equal(out.dtype, CAIRN_UI32);
  assert_values(&out, VALUES(1, 2));
  assert_int_equal(run(CRN_OP_reduce_index, CAIRN_F32, smaller, OPERANDS(x, I32_SCALAR(0), F32_SCALAR(4), zero), &out), CAIRN_OK);
  assert_values(&out, VALUES(0, 1, 0, 1));
  // Nothing is better than the first value: its place stays.
  crn_tensor place = crn_tensor_make(CAIRN_UI16, NULL, 0, (uint16_t[]){77});
  assert_int_equal(run(CRN_OP_reduce_index, CAIRN_F32, greater, OPERANDS(x, I32_SCALAR(1), F32_SCALAR(1000), place), &out), CAIRN_OK);
  assert_values(&out, VALUES(77, 77));
  assert_failure(run(CRN_OP_reduce_index, CAIRN_F32, greater, OPERANDS(x, I32_SCALAR(2), F32_SCALAR(0), zero), &out),
                 CAIRN_INVALID_ARGUMENT, "axis 2");
  assert_failure(run(CRN_OP_reduce_index, CAIRN_F32, greater, OPERANDS(x, I32_SCALAR(0), I32_SCALAR(0), zero), &out),
                 CAIRN_INVALID_ARGUMENT, "int32");
  assert_failure(run(CRN_OP_reduce_index, CAIRN_F32, greater, OPERANDS(x, I32_SCALAR(0), F32_SCALAR(0), F32_SCALAR(0)), &out),
                 CAIRN_INVALID_ARGUMENT, "integer");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(usual_reductions), cmocka_unit_test(narrow_floats_add_up_wide),
                                     cmocka_unit_test(other_regions), cmocka_unit_test(places)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
