#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka needs the headers above in front of it.
#include <cmocka.h>
#include <stdlib.h>

#include "asset/mlirbc/module.h"
#include "asset/mlirbc/test_builder.h"
#include "base/file.h"

static test_program g_program;
static test_bytes g_region, g_out;

static int start(void **state) {
  (void)state;
  start_program(&g_program);
  g_region.size = 0;
  return 0;
}

static cairn_status open_bytes(const void *data, size_t bytes, crn_bc_module **m) { return crn_bc_module_open(NULL, data, bytes, m); }

// Opens the program being built and asks for the regions of the asset; returns the first failure.
static cairn_status decode(crn_bc_module **m, const crn_bc_region **regions) {
  finish_program(&g_program, &g_region, &g_out);
  CRN_TRY(open_bytes(g_out.data, g_out.size, m));
  cairn_status status = crn_bc_op_regions(*m, crn_bc_module_top(*m), regions);
  if (status != CAIRN_OK) crn_bc_module_close(*m);
  return status;
}

static void expect_failure(cairn_status expected, const char *text) {
  crn_bc_module *m;
  const crn_bc_region *regions;
  assert_int_equal(decode(&m, &regions), expected);
  char message[2048];
  cairn_last_error_text(message, sizeof message);
  if (!strstr(message, text)) fail_msg("'%s' does not hold '%s'", message, text);
}

// One block with one `serialization.opaque` whose attributes are `attr`.
static void region_with_opaque(uint8_t attr) {
  ADD_PROPERTIES(&g_program, V(attr), V(0));
  PUT(&g_region, V(1), V(0), V(1 << 1), V(OP_OPAQUE), 0x40, V(0), V(g_program.n_properties - 1));
}

static void test_smallest_program(void **state) {
  (void)state;
  PUT(&g_region, V(1), V(0), V(0));
  crn_bc_module *m;
  const crn_bc_region *regions;
  assert_int_equal(decode(&m, &regions), CAIRN_OK);
  assert_int_equal(crn_bc_module_version(m), 6);
  assert_string_equal(crn_bc_module_producer(m), "test");
  assert_int_equal(crn_bc_module_resource_count(m), 0);
  assert_null(crn_bc_module_resource(m, 0));
  assert_string_equal(crn_bc_module_top(m)->name, "serialization.asset");
  assert_int_equal(regions[0].n_blocks, 1);
  crn_bc_module_close(m);
}

// --- records ------------------------------------------------------------------------------------------------------------

static void test_entry_that_contains_itself(void **state) {
  (void)state;
  ADD_ATTR(&g_program, V(5), V(1), V(2));
  ADD_ATTR(&g_program, V(5), V(1), V(1));
  region_with_opaque(1);
  expect_failure(CAIRN_CORRUPT, "contains itself");
}

static void test_deep_entries(void **state) {
  (void)state;
  // Attribute i is an array of attribute i + 1; the last is the location, which is a leaf.
  for (uint8_t i = 1; i <= 120; i++) ADD_ATTR(&g_program, V(5), V(1), V(i == 120 ? 0 : i + 1));
  region_with_opaque(1);
  expect_failure(CAIRN_CORRUPT, "nested more than");
}

// The depth must not depend on what was decoded before: here every entry finds the ones below it ready.
static void test_deep_entries_from_below(void **state) {
  (void)state;
  for (uint8_t i = 1; i <= 120; i++) ADD_ATTR(&g_program, V(5), V(1), V(i - 1));
  ADD_PROPERTIES(&g_program, V(60), V(0));
  ADD_PROPERTIES(&g_program, V(120), V(0));
  PUT(&g_region, V(1), V(0), V(2 << 1), V(OP_OPAQUE), 0x40, V(0), V(1), V(OP_OPAQUE), 0x40, V(0), V(2));
  expect_failure(CAIRN_CORRUPT, "nested more than");
}

static void test_unknown_code_matters_only_when_reached(void **state) {
  (void)state;
  ADD_ATTR(&g_program, V(63));
  PUT(&g_region, V(1), V(0), V(0));
  crn_bc_module *m;
  const crn_bc_region *regions;
  assert_int_equal(decode(&m, &regions), CAIRN_OK);
  crn_bc_module_close(m);
  start(NULL);
  ADD_ATTR(&g_program, V(22));
  region_with_opaque(1);
  expect_failure(CAIRN_CORRUPT, "unknown attribute code 22");
}

static void test_entry_not_consumed(void **state) {
  (void)state;
  ADD_ATTR(&g_program, V(46), V(0));
  region_with_opaque(1);
  expect_failure(CAIRN_CORRUPT, "1 bytes left over");
}

static void test_count_larger_than_entry(void **state) {
  (void)state;
  uint8_t record[10] = {V(5), 0};
  memset(record + 2, 0x7f, 8);
  add_attr_of_form(&g_program, 1, record, sizeof record);
  region_with_opaque(1);
  expect_failure(CAIRN_CORRUPT, "items announced");
}

static void test_index_out_of_range(void **state) {
  (void)state;
  ADD_ATTR(&g_program, V(1), V(100));
  region_with_opaque(1);
  expect_failure(CAIRN_CORRUPT, "string index 100");
  start(NULL);
  ADD_ATTR(&g_program, V(7), V(0));
  region_with_opaque(1);
  expect_failure(CAIRN_CORRUPT, "resource index 0, there are 0");
}

static const crn_bc_attr *first_property(const crn_bc_region *regions) { return regions[0].blocks[0]->ops[0]->properties[0].value; }

static void test_text_entries(void **state) {
  (void)state;
  static const char unit[] = "#aicode.unit_v1", other[] = "#other.thing<1>", token[] = "!aicode.token_v1";
  add_attr_of_form(&g_program, 0, unit, sizeof unit);
  add_attr_of_form(&g_program, 0, other, sizeof other);
  add_type_of_form(&g_program, 0, token, sizeof token);
  ADD_ATTR(&g_program, V(4), V(1));                    // 3: the type token
  ADD_ATTR(&g_program, V(5), V(3), V(1), V(2), V(3));  // 4
  region_with_opaque(4);
  crn_bc_module *m;
  const crn_bc_region *regions;
  assert_int_equal(decode(&m, &regions), CAIRN_OK);
  const crn_bc_attr *array = first_property(regions);
  assert_int_equal(array->fields[0].n, 3);
  assert_int_equal(array->fields[0].as[0]->code, CRN_BC_ATTR_UNIT);
  assert_int_equal(array->fields[0].as[1]->code, CRN_BC_ATTR_TEXT);
  assert_memory_equal(array->fields[0].as[1]->fields[0].s.data, other, sizeof other);
  assert_int_equal(array->fields[0].as[2]->fields[0].t->code, CRN_BC_TYPE_TOKEN);
  crn_bc_module_close(m);
}

static void test_integers(void **state) {
  (void)state;
  static const struct {
    uint8_t record[12];
    size_t n;
    int64_t value;
  } cases[] = {
      {{V(2), V(1), 1, 1}, 4, 1},                          // a truth value
      {{V(2), V(1), 0, 1}, 4, -1},                         // one signed bit
      {{V(2), V(8), 0, 0xFE}, 4, -2},                      // a raw byte
      {{V(2), V(16), 0, 0x04 | 0xC0, 0xFF, 0x0F}, 6, -4},  // zigzag of 65532, zero-extended
      {{V(2), V(32), 0, V(6)}, 4, 3},                      // zigzag
      {{V(2), V(64), 0, 0, 255, 255, 255, 255, 255, 255, 255, 255}, 12, INT64_MIN},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    start(NULL);
    add_attr_of_form(&g_program, 1, cases[i].record, cases[i].n);
    region_with_opaque(1);
    crn_bc_module *m;
    const crn_bc_region *regions;
    assert_int_equal(decode(&m, &regions), CAIRN_OK);
    int64_t value = 99;
    assert_int_equal(crn_bc_get_int(first_property(regions), "it", &value), CAIRN_OK);
    assert_true(value == cases[i].value);
    crn_bc_text text;
    assert_int_equal(crn_bc_get_text(first_property(regions), "it", &text), CAIRN_CORRUPT);
    crn_bc_module_close(m);
  }
}

static void test_weight_of_shared_records(void **state) {
  (void)state;
  // Each array holds the next one twice: 2^60 leaves in 60 records.
  for (uint8_t i = 1; i <= 60; i++) ADD_ATTR(&g_program, V(5), V(2), V(i - 1), V(i - 1));
  region_with_opaque(60);
  crn_bc_module *m;
  const crn_bc_region *regions;
  assert_int_equal(decode(&m, &regions), CAIRN_OK);
  const crn_bc_attr *top = first_property(regions);
  assert_int_equal(crn_bc_attr_weight(m, top), UINT32_MAX);
  while (top->index > 3) top = top->fields[0].as[0];
  assert_int_equal(crn_bc_attr_weight(m, top), 15);
  crn_bc_module_close(m);
}

// --- operations -----------------------------------------------------------------------------------------------------------

static void test_values_blocks_and_lists(void **state) {
  (void)state;
  // Two blocks; the first operation uses the value of the second one and names block 1 as successor, and both kinds of
  // use-list orders are there. Region: 2 blocks, 3 values.
  PUT(&g_region, V(2), V(3));
  PUT(&g_region, V(1 << 1 | 1), V(1), V(0 << 1 | 1), V(0));  // one operation; one argument of type 0 with a location
  PUT(&g_region, 1, V(2 << 1), V(1), V(0));                  // its use-list order
  PUT(&g_region, V(OP_ADD), 0x2E, V(0), V(1), V(0), V(2), V(0), V(2), V(1), V(1), V(2 << 1 | 1), V(1), V(0));
  PUT(&g_region, V(1 << 1));  // second block
  PUT(&g_region, V(OP_ADD), 0x06, V(0), V(1), V(0), V(2), V(0), V(1));
  crn_bc_module *m;
  const crn_bc_region *regions;
  assert_int_equal(decode(&m, &regions), CAIRN_OK);
  assert_int_equal(regions[0].n_blocks, 2);
  const crn_bc_block *first = regions[0].blocks[0], *second = regions[0].blocks[1];
  assert_int_equal(first->n_arguments, 1);
  assert_non_null(first->arguments[0]->location);
  assert_ptr_equal(first->ops[0]->operands[0], first->arguments[0]);
  assert_ptr_equal(first->ops[0]->operands[1], second->ops[0]->results[0]);
  assert_ptr_equal(second->ops[0]->results[0]->owner, second->ops[0]);
  assert_ptr_equal(second->ops[0]->operands[1], first->ops[0]->results[0]);
  assert_int_equal(second->ops[0]->results[0]->type->code, 6);
  crn_bc_module_close(m);
}

static void test_value_counts(void **state) {
  (void)state;
  PUT(&g_region, V(1), V(2), V(1 << 1), V(OP_ADD), 0x02, V(0), V(1), V(0));
  expect_failure(CAIRN_CORRUPT, "fewer values");
  g_region.size = 0;
  PUT(&g_region, V(1), V(0), V(1 << 1), V(OP_ADD), 0x02, V(0), V(1), V(0));
  expect_failure(CAIRN_CORRUPT, "more values");
  g_region.size = 0;
  PUT(&g_region, V(1), V(1), V(1 << 1), V(OP_ADD), 0x06, V(0), V(1), V(0), V(1), V(1));
  expect_failure(CAIRN_CORRUPT, "value index 1, there are 1");
}

static void test_counts_need_bytes(void **state) {
  (void)state;
  PUT(&g_region, V(100), V(0), V(0));
  expect_failure(CAIRN_CORRUPT, "too small");
  g_region.size = 0;
  PUT(&g_region, V(1), V(120), V(0));
  expect_failure(CAIRN_CORRUPT, "too small");
  g_region.size = 0;
  PUT(&g_region, V(1), V(0), V(50 << 1), V(OP_ADD), 0x00, V(0));
  expect_failure(CAIRN_CORRUPT, "too small");
}

// `sigmoid` inside of itself, each level in an isolated section of its own or inline.
static void nest(test_bytes *region, int levels, bool isolated) {
  test_bytes *inner = calloc(1, sizeof *inner), *outer = calloc(1, sizeof *outer);
  assert_non_null(inner);
  assert_non_null(outer);
  PUT(inner, V(1), V(0), V(0));
  for (int i = 0; i < levels; i++) {
    outer->size = 0;
    PUT(outer, V(1), V(0), V(1 << 1), V(OP_SIGMOID), 0x10, V(0), V(1 << 1 | (isolated ? 1 : 0)));
    if (isolated) {
      put_section(outer, 4, inner);
    } else {
      put(outer, inner->data, inner->size);
    }
    test_bytes *kept = inner;
    inner = outer;
    outer = kept;
  }
  *region = *inner;
  free(inner);
  free(outer);
}

static cairn_status count_ops(void *user, const crn_bc_op *op) {
  assert_true(crn_bc_op_has_decomposition_body(op));
  ++*(int *)user;
  return CAIRN_OK;
}

static void test_nesting(void **state) {
  (void)state;
  for (int isolated = 0; isolated < 2; isolated++) {
    crn_bc_module *m;
    const crn_bc_region *regions;
    int n = 0;
    nest(&g_region, 100, isolated);
    assert_int_equal(decode(&m, &regions), CAIRN_OK);
    assert_int_equal(crn_bc_walk(m, crn_bc_module_top(m), true, count_ops, &n), CAIRN_OK);
    assert_int_equal(n, 100);
    n = 0;
    assert_int_equal(crn_bc_walk(m, crn_bc_module_top(m), false, count_ops, &n), CAIRN_OK);
    assert_int_equal(n, 1);
    crn_bc_module_close(m);
    nest(&g_region, 1000, isolated);
    if (!isolated) {
      expect_failure(CAIRN_CORRUPT, "nested more than");
      continue;
    }
    // Isolated regions are decoded one level at a time, so the limit is met on the way down.
    assert_int_equal(decode(&m, &regions), CAIRN_OK);
    assert_int_equal(crn_bc_walk(m, crn_bc_module_top(m), true, count_ops, &n), CAIRN_CORRUPT);
    crn_bc_module_close(m);
  }
}

static void test_isolated_regions_are_decoded_late(void **state) {
  (void)state;
  // The region of the `if` is rubbish; that is noticed only when it is asked for, and again at every further request.
  PUT(&g_region, V(1), V(0), V(1 << 1), V(OP_IF), 0x10, V(0), V(1 << 1 | 1), 4, V(2), 0xFF, 0xFF);
  crn_bc_module *m;
  const crn_bc_region *regions;
  assert_int_equal(decode(&m, &regions), CAIRN_OK);
  const crn_bc_op *op = regions[0].blocks[0]->ops[0];
  assert_true(op->isolated);
  assert_int_equal(op->n_regions, 1);
  assert_int_equal(crn_bc_op_regions(m, op, &regions), CAIRN_CORRUPT);
  assert_int_equal(crn_bc_op_regions(m, op, &regions), CAIRN_CORRUPT);
  crn_bc_module_close(m);
}

static void test_unknown_operation(void **state) {
  (void)state;
  ADD_PROPERTIES(&g_program, V(0));
  PUT(&g_region, V(1), V(0), V(1 << 1), V(OP_UNKNOWN), 0x40, V(0), V(1));
  expect_failure(CAIRN_UNSUPPORTED, "primitive.from_the_future_v9");
}

static void test_properties(void **state) {
  (void)state;
  ADD_PROPERTIES(&g_program, V(0), V(0), V(0));
  PUT(&g_region, V(1), V(0), V(1 << 1), V(OP_OPAQUE), 0x40, V(0), V(1));
  expect_failure(CAIRN_CORRUPT, "1 bytes left over");
  start(NULL);
  PUT(&g_region, V(1), V(0), V(1 << 1), V(OP_ADD), 0x40, V(0), V(0));
  expect_failure(CAIRN_CORRUPT, "has properties");
  start(NULL);
  PUT(&g_region, V(1), V(0), V(1 << 1), V(OP_OPAQUE), 0x40, V(0), V(1));
  expect_failure(CAIRN_CORRUPT, "property record index 1, there are 1");
}

// Older containers keep the attributes of an operation in a dictionary of the builtin dialect.
static void test_dictionary_of_attributes(void **state) {
  (void)state;
  start_builtin_attrs(&g_program);
  ADD_ATTR(&g_program, V(2), V(1));              // 1: the string "serialization.asset", which serves as name
  ADD_ATTR(&g_program, V(1), V(1), V(1), V(0));  // 2: a dictionary of one entry
  ADD_ATTR(&g_program, V(1), V(1), V(0), V(0));  // 3: one whose name is no string
  PUT(&g_region, V(1), V(0), V(1 << 1), V(OP_ADD), 0x01, V(0), V(2));
  crn_bc_module *m;
  const crn_bc_region *regions;
  assert_int_equal(decode(&m, &regions), CAIRN_OK);
  const crn_bc_op *op = regions[0].blocks[0]->ops[0];
  assert_int_equal(op->n_properties, 1);
  assert_int_equal(crn_bc_op_property(op, "serialization.asset")->code, CRN_BC_ATTR_UNIT);
  assert_null(crn_bc_op_property(op, "absent"));
  crn_bc_module_close(m);
  for (uint8_t wrong = 0; wrong < 4; wrong += 3) {
    g_region.size = 0;
    PUT(&g_region, V(1), V(0), V(1 << 1), V(OP_ADD), 0x01, V(0), V(wrong));
    expect_failure(CAIRN_CORRUPT, wrong ? "an attribute name of" : "expected a builtin dictionary");
  }
}

// --- the container, on a file of the corpus -------------------------------------------------------------------------------

typedef struct part {
  uint8_t id;
  size_t offset, bytes;
} part;

static uint64_t varint_at(const uint8_t *p, size_t *in_out_at) {
  unsigned first = p[*in_out_at], extra = first ? (unsigned)__builtin_ctz(first) : 8;
  uint64_t v = 0;
  for (unsigned i = 0; i <= extra && i < 8; i++) v |= (uint64_t)p[*in_out_at + i + !first] << (8 * i);
  *in_out_at += extra + 1;
  return first ? v >> (extra + 1) : v;
}

// Finds the sections of a file without aligned ones.
static int find_parts(const uint8_t *data, size_t size, part *parts) {
  size_t at = 4;
  (void)varint_at(data, &at);
  at += strlen((const char *)data + at) + 1;
  int n = 0;
  while (at < size) {
    parts[n].id = data[at++];
    assert_false(parts[n].id & 0x80);
    parts[n].bytes = varint_at(data, &at);
    parts[n].offset = at;
    at += parts[n++].bytes;
  }
  return n;
}

static void read_interfaces(crn_str *out) {
  crn_str_initialize(out, NULL);
  assert_int_equal(crn_file_read(CAIRN_TEST_DATA "/assets/interfaces.aimodel/main.mlirb", 1 << 20, out), CAIRN_OK);
}

// Writes the sections of the file whose ids are listed in that order, and opens the result.
static cairn_status open_reordered(const crn_str *file, const char *ids) {
  part parts[16];
  int n = find_parts((const uint8_t *)file->data, file->size, parts);
  g_out.size = 0;
  PUT(&g_out, 'M', 'L', 0xEF, 'R', V(6), 0);
  for (; *ids; ids++) {
    for (int i = 0; i < n; i++) {
      if (parts[i].id != *ids - '0') continue;
      test_bytes content = {.size = 0};
      put(&content, file->data + parts[i].offset, parts[i].bytes);
      put_section(&g_out, parts[i].id, &content);
    }
  }
  crn_bc_module *m;
  CRN_TRY(open_bytes(g_out.data, g_out.size, &m));
  const crn_bc_region *regions;
  cairn_status status = crn_bc_op_regions(m, crn_bc_module_top(m), &regions);
  crn_bc_module_close(m);
  return status;
}

static void test_section_order(void **state) {
  (void)state;
  crn_str file;
  read_interfaces(&file);
  assert_int_equal(open_reordered(&file, "13246508"), CAIRN_OK);
  assert_int_equal(open_reordered(&file, "80562413"), CAIRN_OK);
  assert_int_equal(open_reordered(&file, "012348"), CAIRN_OK);          // no resource sections
  assert_int_equal(open_reordered(&file, "1324650"), CAIRN_CORRUPT);    // no properties, but operations that have some
  assert_int_equal(open_reordered(&file, "1326508"), CAIRN_CORRUPT);    // no program
  assert_int_equal(open_reordered(&file, "132465808"), CAIRN_CORRUPT);  // one section twice
  crn_str_deinitialize(&file);
}

static void test_versions(void **state) {
  (void)state;
  crn_str file;
  read_interfaces(&file);
  for (int version = 0; version < 9; version++) {
    crn_bc_module *m;
    file.data[4] = (char)V(version);
    cairn_status status = open_bytes(file.data, file.size, &m);
    assert_int_equal(status, version == 5 || version == 6 ? CAIRN_OK : CAIRN_INCOMPATIBLE);
    if (status == CAIRN_OK) crn_bc_module_close(m);
  }
  file.data[4] = V(6);
  static const char version_section[] = {7, V(1), V(2)};
  char *at = memmem(file.data, file.size, version_section, sizeof version_section);
  assert_non_null(at);
  for (int version = 0; version < 5; version++) {
    crn_bc_module *m;
    at[2] = (char)V(version);
    cairn_status status = open_bytes(file.data, file.size, &m);
    assert_int_equal(status, version == 2 ? CAIRN_OK : CAIRN_INCOMPATIBLE);
    if (status == CAIRN_OK) crn_bc_module_close(m);
  }
  crn_bc_module *m;
  assert_int_equal(open_bytes("MLIR", 4, &m), CAIRN_CORRUPT);
  assert_int_equal(open_bytes(NULL, 0, &m), CAIRN_CORRUPT);
  assert_null(m);
  crn_str_deinitialize(&file);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup(name, start)
  const struct CMUnitTest tests[] = {
      TEST(test_smallest_program),
      TEST(test_entry_that_contains_itself),
      TEST(test_deep_entries),
      TEST(test_deep_entries_from_below),
      TEST(test_entry_not_consumed),
      TEST(test_unknown_code_matters_only_when_reached),
      TEST(test_index_out_of_range),
      TEST(test_count_larger_than_entry),
      TEST(test_text_entries),
      TEST(test_integers),
      TEST(test_value_counts),
      TEST(test_weight_of_shared_records),
      TEST(test_counts_need_bytes),
      TEST(test_values_blocks_and_lists),
      TEST(test_nesting),
      TEST(test_isolated_regions_are_decoded_late),
      TEST(test_unknown_operation),
      TEST(test_properties),
      TEST(test_dictionary_of_attributes),
      TEST(test_section_order),
      TEST(test_versions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
