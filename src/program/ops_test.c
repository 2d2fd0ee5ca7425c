#include "program/ops.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void finds_every_row_by_its_name(void **state) {
  (void)state;
  int n_composites = 0;
  for (int id = CRN_OP_NONE + 1; id < CRN_OP_COUNT; id++) {
    const crn_op_info *info = crn_op_info_of((crn_op_id)id);
    bool composite = (info->traits & CRN_COMPOSITE) != 0;
    n_composites += composite;
    // Names are unique within each of the two name spaces, else the first row would be found for the second.
    assert_int_equal(composite ? crn_composite_find(info->name) : crn_op_find(info->name), id);
    assert_int_equal(composite ? crn_op_find(info->name) : crn_composite_find(info->name), CRN_OP_NONE);
  }
  assert_true(n_composites >= 6);
}

static void knows_the_facts_of_some_rows(void **state) {
  (void)state;
  const crn_op_info *add = crn_op_info_of(CRN_OP_add);
  assert_string_equal(add->name, "coreai.add");
  assert_int_equal(add->n_operands, 2);
  assert_int_equal(add->n_results, 1);
  assert_true(add->is_ready);
  assert_true(add->traits & CRN_ELEMENTWISE);
  assert_false(crn_op_info_of(CRN_OP_delegate)->is_ready);
  assert_true(crn_op_info_of(CRN_OP_output)->is_ready);
  assert_int_equal(crn_op_find("coreai.decomposable.broadcasting_mul"), CRN_OP_broadcasting_mul);
}

static void unknown_names_and_ids_are_none(void **state) {
  (void)state;
  assert_int_equal(crn_op_find("coreai.nonsense"), CRN_OP_NONE);
  assert_int_equal(crn_op_find(""), CRN_OP_NONE);
  assert_int_equal(crn_op_find("coreai.ad"), CRN_OP_NONE);
  assert_int_equal(crn_composite_find("coreai.add"), CRN_OP_NONE);
  assert_string_equal(crn_op_info_of(CRN_OP_NONE)->name, "(no op)");
  assert_ptr_equal(crn_op_info_of(CRN_OP_COUNT), crn_op_info_of(CRN_OP_NONE));
  assert_ptr_equal(crn_op_info_of((crn_op_id)-5), crn_op_info_of(CRN_OP_NONE));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(finds_every_row_by_its_name),
      cmocka_unit_test(knows_the_facts_of_some_rows),
      cmocka_unit_test(unknown_names_and_ids_are_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
