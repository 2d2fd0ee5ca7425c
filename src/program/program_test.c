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
      cmocka_unit_test(test_recursion),       cmocka_unit_test(test_attributes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
