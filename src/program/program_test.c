// Unit tests of building, verifying and printing programs.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "program/builder.h"
#include "program/print.h"
#include "program/verify.h"

static crn_program *new_program(void) {
  crn_program *p;
  assert_int_equal(crn_program_create(crn_default_allocator(), &p), CAIRN_OK);
  return p;
}

static void test_build_and_print(void **state) {
  (void)state;
  crn_program *p = new_program();
  crn_builder b;
  crn_builder_begin(&b, p, "main");
  crn_value *x = crn_build_input(&b, "x", CAIRN_F16, (int64_t[]){1, -1, 8}, 3);
  crn_value *h = crn_build_state(&b, "h", CAIRN_F16, (int64_t[]){1, 4, 8}, 3);
  crn_value *t = crn_build_transpose(&b, x, (uint32_t[]){0, 2, 1}, 3);
  crn_value *s = crn_build_unary(&b, CRN_OP_get_shape, x);
  crn_value *old = crn_build_read_state(&b, h);
  crn_build_write_state(&b, h, old);
  crn_value *outputs[2] = {t, s};
  assert_int_equal(crn_builder_finish(&b, outputs, (const char *[]){"t", "s"}, 2), CAIRN_OK);
  assert_int_equal(crn_program_verify(p), CAIRN_OK);
  assert_int_equal(crn_program_check_ready(p, p->first), CAIRN_OK);
  crn_str text;
  crn_str_initialize(&text, NULL);
  assert_int_equal(crn_program_print(p, &text), CAIRN_OK);
  assert_string_equal(text.data,
                      "graph @main(%0 x: float16[1,?,8], %1 h: handle<float16[1,4,8]>) -> _: token, t: float16[1,8,?], s: uint32[3] {\n"
                      "  %2 = coreai.constant [0, 2, 1] : uint32[3]\n"
                      "  %3 = coreai.transpose %0, %2 : float16[1,8,?]\n"
                      "  %4 = coreai.get_shape %0 : uint32[3]\n"
                      "  %5 = coreai.create_token : token\n"
                      "  %6, %7 = coreai.read_handle %1, %5 : float16[1,4,8], token\n"
                      "  %8 = coreai.write_handle %1, %6, %7 : token\n"
                      "  coreai.output %8, %3, %4\n"
                      "}\n");
  crn_str_deinitialize(&text);
  crn_program_destroy(p);
}

static void test_first_failure_sticks(void **state) {
  (void)state;
  crn_program *p = new_program();
  crn_builder b;
  crn_builder_begin(&b, p, "main");
  crn_value *x = crn_build_input(&b, "x", CAIRN_F32, (int64_t[]){2, 3}, 2), *y = crn_build_input(&b, "y", CAIRN_F32, (int64_t[]){4, 3}, 2);
  crn_value *sum = crn_build_binary(&b, CRN_OP_add, x, y);
  assert_null(sum);
  assert_null(crn_build_unary(&b, CRN_OP_exp, sum));
  assert_int_equal(crn_builder_finish(&b, &sum, (const char *[]){"z"}, 1), CAIRN_INVALID_ARGUMENT);
  assert_non_null(strstr(cairn_last_error()->message, "coreai.add"));
  assert_null(p->first);
  crn_program_destroy(p);
}

// A correct function to be damaged in one place.
static crn_program *damaged(void (*damage)(crn_graph *g)) {
  crn_program *p = new_program();
  crn_builder b;
  crn_builder_begin(&b, p, "main");
  crn_value *x = crn_build_input(&b, "x", CAIRN_F32, (int64_t[]){2}, 1), *h = crn_build_state(&b, "h", CAIRN_F32, (int64_t[]){2}, 1);
  crn_value *sum = crn_build_binary(&b, CRN_OP_add, x, crn_build_read_state(&b, h));
  crn_build_write_state(&b, h, sum);
  assert_int_equal(crn_builder_finish(&b, &sum, (const char *[]){"y"}, 1), CAIRN_OK);
  damage(p->first);
  return p;
}

static crn_op *find_op(crn_graph *g, crn_op_id id) {
  for (crn_op *op = g->body->first; op; op = op->next) {
    if (op->id == id) return op;
  }
  return NULL;
}

static void lose_operand(crn_graph *g) { find_op(g, CRN_OP_add)->n_operands = 1; }
static void lose_terminator(crn_graph *g) { g->body->last->id = CRN_OP_add; }
static void lose_token(crn_graph *g) {
  g->n_results--;
  g->result_types++;
  g->result_names++;
  g->body->last->operands++;
  g->body->last->n_operands--;
}
static void write_to_tensor(crn_graph *g) { find_op(g, CRN_OP_write_handle)->operands[0] = &g->body->arguments[0]; }
static void use_apple_op(crn_graph *g) { find_op(g, CRN_OP_add)->id = CRN_OP_delegate; }

static void test_verify(void **state) {
  (void)state;
  static const struct {
    void (*damage)(crn_graph *g);
    const char *text;
  } cases[] = {{lose_operand, "wrong number of operands"},
               {lose_terminator, "no terminator"},
               {lose_token, "1 states but returns 0 tokens"},
               {write_to_tensor, "must be a state handle"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    crn_program *p = damaged(cases[i].damage);
    assert_int_equal(crn_program_verify(p), CAIRN_CORRUPT);
    if (!strstr(cairn_last_error()->message, cases[i].text)) fail_msg("'%s' does not say '%s'", cairn_last_error()->message, cases[i].text);
    crn_program_destroy(p);
  }
  crn_program *p = damaged(use_apple_op);
  assert_int_equal(crn_program_check_ready(p, p->first), CAIRN_UNSUPPORTED);
  assert_non_null(strstr(cairn_last_error()->message, "coreai.delegate"));
  crn_program_destroy(p);
}

static void use_later_value(crn_graph *g) { find_op(g, CRN_OP_add)->operands[0] = &find_op(g, CRN_OP_add)->results[0]; }
static void lose_type(crn_graph *g) { find_op(g, CRN_OP_add)->results[0].type = NULL; }

static crn_type *other_type(crn_graph *g, crn_op_id id) {
  crn_type *t;
  assert_int_equal(crn_arena_alloc(&g->program->arena, sizeof *t, &t), CAIRN_OK);
  *t = *find_op(g, id)->results[0].type;
  find_op(g, id)->results[0].type = t;
  return t;
}
static void change_dtype(crn_graph *g) { other_type(g, CRN_OP_add)->dtype = CAIRN_SI8; }
static void change_size(crn_graph *g) { other_type(g, CRN_OP_add)->dims[0] = 3; }
static void change_rank(crn_graph *g) { other_type(g, CRN_OP_add)->rank = CAIRN_MAX_RANK + 1; }
static void negative_size(crn_graph *g) { other_type(g, CRN_OP_add)->dims[0] = -2; }
static void huge_size(crn_graph *g) { other_type(g, CRN_OP_add)->dims[0] = INT64_MAX; }
static void become_token(crn_graph *g) { other_type(g, CRN_OP_add)->kind = CRN_TYPE_TOKEN; }
static void share_id(crn_graph *g) { find_op(g, CRN_OP_add)->results[0].id = 0; }

static void test_verify_types(void **state) {
  (void)state;
  static const struct {
    void (*damage)(crn_graph *g);
    const char *text;
  } cases[] = {{use_later_value, "used before it is defined"},
               {lose_type, "no possible type"},
               {change_dtype, "declared int8"},
               {change_size, "declared with shape [3]"},
               {change_rank, "no possible type"},
               {negative_size, "no possible type"},
               {huge_size, "no possible type"},
               {become_token, "a result is not a tensor"},
               {share_id, "share an id"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    crn_program *p = damaged(cases[i].damage);
    assert_int_equal(crn_program_verify(p), CAIRN_CORRUPT);
    if (!strstr(cairn_last_error()->message, cases[i].text)) fail_msg("'%s' does not say '%s'", cairn_last_error()->message, cases[i].text);
    crn_program_destroy(p);
  }
}

// --- regions ----------------------------------------------------------------------------------------------------------------

typedef struct region_program {
  crn_program *p;
  crn_builder b;
  crn_value *x, *y;
  crn_block *blocks[2];
} region_program;

// y = x added up over axis 0 by a region; `turn` damages what is built before it is finished.
static cairn_status reduction(void (*turn)(region_program *r)) {
  region_program r = {.p = new_program()};
  crn_builder_begin(&r.b, r.p, "main");
  r.x = crn_build_input(&r.b, "x", CAIRN_F32, (int64_t[]){2, 3}, 2);
  const crn_type *scalar = crn_build_tensor_type(&r.b, CAIRN_F32, NULL, 0);
  r.blocks[0] = crn_build_region_begin(&r.b, (const crn_type *[]){scalar, scalar}, 2);
  crn_value *sum = crn_build_binary(&r.b, CRN_OP_add, &r.blocks[0]->arguments[0], &r.blocks[0]->arguments[1]);
  crn_build_region_end(&r.b, CRN_OP_yield, &sum, 1);
  crn_value *operands[3] = {r.x, crn_build_i32(&r.b, (int32_t[]){0}, 1), crn_build_scalar_f32(&r.b, 0)};
  r.y = crn_build_region_op(&r.b, CRN_OP_reduce, operands, 3, r.blocks, 1, NULL, 1);
  assert_non_null(r.y);
  assert_int_equal(r.y->type->dims[0], 1);
  assert_int_equal(crn_builder_finish(&r.b, &r.y, (const char *[]){"y"}, 1), CAIRN_OK);
  if (turn) turn(&r);
  cairn_status status = crn_program_verify(r.p);
  crn_program_destroy(r.p);
  return status;
}

static void capture(region_program *r) { r->blocks[0]->first->operands[0] = r->x; }
static void drop_region(region_program *r) { r->y->def->n_regions = 0; }
static void three_arguments(region_program *r) { r->blocks[0]->n_arguments = 1; }
static void impure(region_program *r) { r->blocks[0]->first->id = CRN_OP_debuginfo_record; }

static void test_reduction_regions(void **state) {
  (void)state;
  assert_int_equal(reduction(NULL), CAIRN_OK);
  static const struct {
    void (*turn)(region_program *r);
    const char *text;
  } cases[] = {{capture, "from outside of the region"},
               {drop_region, "must take two scalars"},
               {three_arguments, "before it is defined"},
               {impure, "wrong number of operands"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(reduction(cases[i].turn), CAIRN_CORRUPT);
    if (!strstr(cairn_last_error()->message, cases[i].text)) fail_msg("'%s' does not say '%s'", cairn_last_error()->message, cases[i].text);
  }
}

// A scatter_nd with a region that yields the old value (0), the update (1) or their sum (2).
static cairn_status scatter(int what) {
  region_program r = {.p = new_program()};
  crn_builder_begin(&r.b, r.p, "main");
  r.x = crn_build_input(&r.b, "x", CAIRN_F32, (int64_t[]){4, 3}, 2);
  crn_value *index = crn_build_input(&r.b, "i", CAIRN_SI32, (int64_t[]){2, 1}, 2);
  crn_value *update = crn_build_input(&r.b, "u", CAIRN_F32, (int64_t[]){2, 3}, 2);
  const crn_type *scalar = crn_build_tensor_type(&r.b, CAIRN_F32, NULL, 0);
  crn_block *block = crn_build_region_begin(&r.b, (const crn_type *[]){scalar, scalar}, 2);
  crn_value *arguments[2] = {&block->arguments[0], &block->arguments[1]};
  crn_value *yielded = what == 2 ? crn_build_binary(&r.b, CRN_OP_add, arguments[0], arguments[1]) : arguments[what];
  crn_build_region_end(&r.b, CRN_OP_yield, &yielded, 1);
  r.y = crn_build_region_op(&r.b, CRN_OP_scatter_nd, (crn_value *[]){r.x, index, update}, 3, &block, 1, NULL, 1);
  assert_int_equal(crn_builder_finish(&r.b, &r.y, (const char *[]){"y"}, 1), CAIRN_OK);
  cairn_status status = crn_program_verify(r.p);
  crn_program_destroy(r.p);
  return status;
}

static void test_scatter_regions(void **state) {
  (void)state;
  assert_int_equal(scatter(1), CAIRN_OK);
  for (int what = 0; what <= 2; what += 2) {
    assert_int_equal(scatter(what), CAIRN_CORRUPT);
    assert_non_null(strstr(cairn_last_error()->message, "bare yield of the update"));
  }
}

// A loop whose body yields `n` of its two values, and a branch whose sides differ.
static cairn_status control_flow(int n_yielded, cairn_dtype side) {
  region_program r = {.p = new_program()};
  crn_builder_begin(&r.b, r.p, "main");
  r.x = crn_build_input(&r.b, "x", CAIRN_F32, (int64_t[]){2}, 1);
  crn_value *flag = crn_build_input(&r.b, "flag", CAIRN_BOOL, NULL, 0);
  for (int i = 0; i < 2; i++) {
    r.blocks[i] = crn_build_region_begin(&r.b, NULL, 0);
    crn_value *v = crn_build_cast(&r.b, r.x, i ? CAIRN_F32 : side);
    crn_build_region_end(&r.b, CRN_OP_yield, &v, 1);
  }
  crn_value *chosen = crn_build_region_op(&r.b, CRN_OP_if, &flag, 1, r.blocks, 2, &r.x->type, 1);
  crn_value *inits[2] = {flag, chosen};
  const crn_type *types[2] = {flag->type, chosen->type};
  r.blocks[0] = crn_build_region_begin(&r.b, types, 2);
  crn_value *a = &r.blocks[0]->arguments[0], *v = &r.blocks[0]->arguments[1];
  crn_build_region_end(&r.b, CRN_OP_condition, (crn_value *[]){a, a, v}, 3);
  r.blocks[1] = crn_build_region_begin(&r.b, types, 2);
  crn_value *next[2] = {crn_build_unary(&r.b, CRN_OP_not, &r.blocks[1]->arguments[0]), &r.blocks[1]->arguments[1]};
  crn_build_region_end(&r.b, CRN_OP_yield, next, n_yielded);
  r.y = crn_build_region_op(&r.b, CRN_OP_while, inits, 2, r.blocks, 2, types, 2);
  r.y++;
  assert_int_equal(crn_builder_finish(&r.b, &r.y, (const char *[]){"y"}, 1), CAIRN_OK);
  cairn_status status = crn_program_verify(r.p);
  crn_program_destroy(r.p);
  return status;
}

static void test_control_flow(void **state) {
  (void)state;
  assert_int_equal(control_flow(2, CAIRN_F32), CAIRN_OK);
  assert_int_equal(control_flow(1, CAIRN_F32), CAIRN_CORRUPT);
  assert_non_null(strstr(cairn_last_error()->message, "does not yield the loop's arguments"));
  assert_int_equal(control_flow(2, CAIRN_F16), CAIRN_CORRUPT);
  assert_non_null(strstr(cairn_last_error()->message, "does not yield what the results are"));
}

static void test_builder_regions(void **state) {
  (void)state;
  crn_program *p = new_program();
  crn_builder b;
  crn_builder_begin(&b, p, "main");
  crn_value *h = crn_build_state(&b, "h", CAIRN_F32, (int64_t[]){2}, 1);
  assert_non_null(crn_build_region_begin(&b, NULL, 0));
  assert_null(crn_build_read_state(&b, h));
  assert_int_equal(crn_builder_finish(&b, NULL, NULL, 0), CAIRN_INVALID_ARGUMENT);
  assert_non_null(strstr(cairn_last_error()->message, "inside of a region"));
  crn_builder_begin(&b, p, "open");
  assert_non_null(crn_build_region_begin(&b, NULL, 0));
  assert_int_equal(crn_builder_finish(&b, NULL, NULL, 0), CAIRN_INVALID_ARGUMENT);
  assert_non_null(strstr(cairn_last_error()->message, "1 regions were not ended"));
  crn_program_destroy(p);
}

static void test_recursion(void **state) {
  (void)state;
  crn_program *p = new_program();
  crn_builder b;
  crn_builder_begin(&b, p, "main");
  crn_value *y = crn_build_unary(&b, CRN_OP_exp, crn_build_input(&b, "x", CAIRN_F32, (int64_t[]){2}, 1));
  assert_int_equal(crn_builder_finish(&b, &y, (const char *[]){"y"}, 1), CAIRN_OK);
  y->def->id = CRN_OP_invoke;
  y->def->attr.callee = p->first;
  assert_int_equal(crn_program_verify(p), CAIRN_CORRUPT);
  assert_string_equal(cairn_last_error()->message, "graph 'main' calls itself");
  crn_program_destroy(p);
}

static void test_attributes(void **state) {
  (void)state;
  crn_attr items[3] = {{.kind = CRN_ATTR_FLOAT, .key = "eps", .f = 1e-5},
                       {.kind = CRN_ATTR_INT, .key = "axes", .i = -1},
                       {.kind = CRN_ATTR_STRING, .key = "s", .s = "x"}};
  crn_attr dict = {.kind = CRN_ATTR_DICT, .list = {items, 3}};
  double f;
  int64_t i;
  assert_int_equal(crn_attr_get_float(&dict, "eps", 0, &f), CAIRN_OK);
  assert_true(f == 1e-5);
  assert_int_equal(crn_attr_get_float(&dict, "axes", 0, &f), CAIRN_OK);
  assert_true(f == -1);
  assert_int_equal(crn_attr_get_int(&dict, "absent", 42, &i), CAIRN_OK);
  assert_int_equal(i, 42);
  assert_int_equal(crn_attr_get_int(&dict, "eps", 0, &i), CAIRN_CORRUPT);
  assert_int_equal(crn_attr_get_float(&dict, "s", 0, &f), CAIRN_CORRUPT);
  assert_null(crn_attr_find(NULL, "x"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_build_and_print), cmocka_unit_test(test_first_failure_sticks), cmocka_unit_test(test_verify),
      cmocka_unit_test(test_recursion),       cmocka_unit_test(test_verify_types),         cmocka_unit_test(test_reduction_regions),
      cmocka_unit_test(test_scatter_regions), cmocka_unit_test(test_control_flow),         cmocka_unit_test(test_builder_regions),
      cmocka_unit_test(test_attributes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
