#include "import/gguf/gguf.h"

#include "import/test_support.h"

// --- files made by hand --------------------------------------------------------------------------------------------------

static crn_str g_file;

static void put(const void *data, size_t n) { assert_int_equal(crn_str_append(&g_file, data, n), CAIRN_OK); }
static void put_u8(uint8_t v) { put(&v, 1); }
static void put_u32(uint32_t v) { put(&v, 4); }
static void put_u64(uint64_t v) { put(&v, 8); }
static void put_text(const char *text) {
  put_u64(strlen(text));
  put(text, strlen(text));
}
static void put_key(const char *key, uint32_t kind) {
  put_text(key);
  put_u32(kind);
}
static void put_tensor(const char *name, int n_dims, const uint64_t *dims, uint32_t type, uint64_t offset) {
  put_text(name);
  put_u32((uint32_t)n_dims);
  for (int i = 0; i < n_dims; i++) put_u64(dims[i]);
  put_u32(type);
  put_u64(offset);
}
static void pad_to(size_t align) {
  while (g_file.size % align) put_u8(0);
}
static void put_data(size_t n) {
  for (size_t i = 0; i < n; i++) put_u8((uint8_t)i);
}
static void begin(uint32_t version, uint64_t n_tensors, uint64_t n_pairs) {
  crn_str_clear(&g_file);
  put("GGUF", 4);
  put_u32(version);
  put_u64(n_tensors);
  put_u64(n_pairs);
}

static int set_up(void **state) {
  (void)state;
  crn_str_initialize(&g_file, NULL);
  return 0;
}
static int tear_down(void **state) {
  (void)state;
  crn_str_deinitialize(&g_file);
  return 0;
}

// Opens what was put together, in memory that ends where the file ends.
static cairn_status open_file(crn_gguf **out, unsigned char **out_copy) {
  *out_copy = exact_copy(g_file.data, g_file.size);
  return crn_gguf_open_memory(NULL, *out_copy, g_file.size, "test", out);
}

static void expect(cairn_status wanted) {
  crn_gguf *f;
  unsigned char *copy;
  cairn_status status = open_file(&f, &copy);
  if (status != wanted) print_message("%s\n", cairn_last_error()->message);
  assert_int_equal(status, wanted);
  assert_true((f != NULL) == (status == CAIRN_OK));
  crn_gguf_close(f);
  free(copy);
}

// --- metadata --------------------------------------------------------------------------------------------------------------

static void put_every_kind(void) {
  float single = -1.5f;
  double wide = 0.1;
  put_key("u8", CRN_GGUF_UINT8), put_u8(200);
  put_key("i8", CRN_GGUF_INT8), put_u8(200);
  put_key("u16", CRN_GGUF_UINT16), put("\xff\xff", 2);
  put_key("i16", CRN_GGUF_INT16), put("\xff\xff", 2);
  put_key("u32", CRN_GGUF_UINT32), put_u32(0xfffffffe);
  put_key("i32", CRN_GGUF_INT32), put_u32(0xfffffffe);
  put_key("f32", CRN_GGUF_FLOAT32), put(&single, 4);
  put_key("bool", CRN_GGUF_BOOL), put_u8(1);
  put_key("string", CRN_GGUF_STRING), put_text("h\xc3\xa9");
  put_key("u64", CRN_GGUF_UINT64), put_u64(UINT64_MAX);
  put_key("i64", CRN_GGUF_INT64), put_u64((uint64_t)-5);
  put_key("f64", CRN_GGUF_FLOAT64), put(&wide, 8);
  // [["a", "bc"], [7u16]], an array of arrays of different kinds
  put_key("nested", CRN_GGUF_ARRAY), put_u32(CRN_GGUF_ARRAY), put_u64(2);
  put_u32(CRN_GGUF_STRING), put_u64(2), put_text("a"), put_text("bc");
  put_u32(CRN_GGUF_UINT16), put_u64(1), put("\x07\x00", 2);
}

static void test_every_kind_of_value(void **state) {
  (void)state;
  crn_gguf *f;
  unsigned char *copy;
  begin(3, 0, 13);
  put_every_kind();
  assert_int_equal(open_file(&f, &copy), CAIRN_OK);
  static const struct {
    const char *key;
    int64_t value;
  } ints[] = {{"u8", 200}, {"i8", -56}, {"u16", 65535}, {"i16", -1}, {"u32", 4294967294}, {"i32", -2}, {"i64", -5}};
  for (size_t i = 0; i < sizeof ints / sizeof *ints; i++) {
    int64_t v = 0;
    assert_int_equal(crn_gguf_get_int(f, ints[i].key, true, &v), CAIRN_OK);
    assert_true(v == ints[i].value);
  }
  int64_t v = 77;
  double x = 0;
  bool flag = false;
  crn_gguf_string s;
  assert_int_equal(crn_gguf_get_int(f, "u64", true, &v), CAIRN_OUT_OF_RANGE);
  assert_true(crn_gguf_find(f, "u64")->u == UINT64_MAX);
  assert_int_equal(crn_gguf_get_int(f, "absent", false, &v), CAIRN_OK);
  assert_true(v == 77);
  assert_int_equal(crn_gguf_get_int(f, "absent", true, &v), CAIRN_CORRUPT);
  assert_int_equal(crn_gguf_get_int(f, "bool", true, &v), CAIRN_CORRUPT);
  assert_int_equal(crn_gguf_get_float(f, "f32", true, &x), CAIRN_OK);
  assert_true(x == -1.5);
  assert_int_equal(crn_gguf_get_float(f, "f64", true, &x), CAIRN_OK);
  assert_true(x == 0.1);
  assert_int_equal(crn_gguf_get_float(f, "u8", true, &x), CAIRN_CORRUPT);
  assert_int_equal(crn_gguf_get_bool(f, "bool", true, &flag), CAIRN_OK);
  assert_true(flag);
  assert_int_equal(crn_gguf_get_bool(f, "u8", true, &flag), CAIRN_CORRUPT);
  assert_int_equal(crn_gguf_get_string(f, "string", true, &s), CAIRN_OK);
  assert_int_equal(s.bytes, 3);
  assert_memory_equal(s.data, "h\xc3\xa9", 3);
  assert_int_equal(crn_gguf_get_string(f, "f32", true, &s), CAIRN_CORRUPT);
  const crn_gguf_value *list;
  assert_int_equal(crn_gguf_get_array(f, "nested", true, CRN_GGUF_STRING, &list), CAIRN_CORRUPT);
  assert_int_equal(crn_gguf_get_array(f, "nested", true, CRN_GGUF_ARRAY, &list), CAIRN_OK);
  crn_gguf_value inner, item;
  const unsigned char *at = crn_gguf_item(CRN_GGUF_ARRAY, list->array.data, &inner);
  assert_int_equal(inner.array.n, 2);
  const unsigned char *text = crn_gguf_item(CRN_GGUF_STRING, inner.array.data, &item);
  crn_gguf_item(CRN_GGUF_STRING, text, &item);
  assert_int_equal(item.s.bytes, 2);
  assert_memory_equal(item.s.data, "bc", 2);
  at = crn_gguf_item(CRN_GGUF_ARRAY, at, &inner);
  assert_int_equal(inner.array.kind, CRN_GGUF_UINT16);
  crn_gguf_item(CRN_GGUF_UINT16, inner.array.data, &item);
  assert_int_equal(item.u, 7);
  assert_ptr_equal(at, copy + g_file.size);
  assert_int_equal(crn_gguf_pair_count(f), 13);
  assert_null(crn_gguf_pair_at(f, 13));
  assert_int_equal(crn_gguf_pair_at(f, 12)->value.kind, CRN_GGUF_ARRAY);
  crn_gguf_close(f);
  free(copy);
}

static void put_nest(int depth) {
  put_key("deep", CRN_GGUF_ARRAY);
  for (int i = 0; i < depth - 1; i++) put_u32(CRN_GGUF_ARRAY), put_u64(1);
  put_u32(CRN_GGUF_UINT8), put_u64(1), put_u8(1);
}

static void test_hostile_metadata(void **state) {
  (void)state;
  begin(3, 0, 1), put_nest(8), expect(CAIRN_OK);
  begin(3, 0, 1), put_nest(9), expect(CAIRN_CORRUPT);
  begin(3, 0, 1), put_nest(100), expect(CAIRN_CORRUPT);
  begin(3, 0, 1), put_key("k", 13), put_u64(0), expect(CAIRN_CORRUPT);
  begin(3, 0, 1), put_key("k", CRN_GGUF_BOOL), put_u8(2), expect(CAIRN_CORRUPT);
  begin(3, 0, 1), put_key("k", CRN_GGUF_STRING), put_u64(UINT64_MAX), put_u64(0), expect(CAIRN_CORRUPT);
  begin(3, 0, 1), put_key("k", CRN_GGUF_ARRAY), put_u32(CRN_GGUF_UINT64), put_u64(UINT64_MAX / 8 + 2), put_u64(0), expect(CAIRN_CORRUPT);
  begin(3, 0, 1), put_key("k", CRN_GGUF_ARRAY), put_u32(CRN_GGUF_STRING), put_u64(UINT64_MAX), put_u64(0), expect(CAIRN_CORRUPT);
  begin(3, 0, 1), put_key("k", CRN_GGUF_ARRAY), put_u32(99), put_u64(1), put_u64(0), expect(CAIRN_CORRUPT);
  begin(3, 0, 1), put_u64(UINT64_MAX), put_u32(0), put_u8(0), expect(CAIRN_CORRUPT);
  begin(3, 0, 2), put_key("k", CRN_GGUF_UINT8), put_u8(1), put_key("k", CRN_GGUF_UINT8), put_u8(1), expect(CAIRN_CORRUPT);
  begin(3, 0, UINT64_MAX), expect(CAIRN_CORRUPT);
  begin(3, 0, 1000000), put_key("k", CRN_GGUF_UINT8), put_u8(1), expect(CAIRN_CORRUPT);
  begin(3, UINT64_MAX, 0), expect(CAIRN_CORRUPT);
}

static void test_versions(void **state) {
  (void)state;
  begin(2, 0, 0), expect(CAIRN_OK);
  begin(3, 0, 0), expect(CAIRN_OK);
  begin(1, 0, 0), expect(CAIRN_UNSUPPORTED);
  begin(4, 0, 0), expect(CAIRN_UNSUPPORTED);
  begin(0x03000000, 0, 0), expect(CAIRN_UNSUPPORTED);
  crn_str_clear(&g_file), put("GGML", 4), put_u32(3), put_u64(0), put_u64(0), expect(CAIRN_CORRUPT);
}

// --- tensors ---------------------------------------------------------------------------------------------------------------

static void test_tensor_places(void **state) {
  (void)state;
  crn_gguf *f;
  unsigned char *copy;
  begin(3, 3, 1);
  put_key("general.alignment", CRN_GGUF_UINT32), put_u32(64);
  put_tensor("a", 2, (uint64_t[]){32, 2}, CRN_GGUF_Q4_1, 64);
  put_tensor("b", 1, (uint64_t[]){3}, CRN_GGUF_F32, 0);
  put_tensor("e", 3, (uint64_t[]){5, 0, 2}, CRN_GGUF_F16, 0);
  pad_to(64), put_data(64 + 40);
  assert_int_equal(open_file(&f, &copy), CAIRN_OK);
  assert_int_equal(crn_gguf_tensor_count(f), 3);
  const crn_gguf_tensor *a = crn_gguf_find_tensor(f, "a"), *e = crn_gguf_find_tensor(f, "e");
  assert_string_equal(a->type->name, "Q4_1");
  assert_int_equal(a->n_dims, 2);
  assert_int_equal(a->dims[0], 32);
  assert_int_equal(a->dims[1], 2);
  assert_int_equal(a->dims[2], 1);
  assert_int_equal(a->bytes, 40);
  assert_ptr_equal(a->data + a->bytes, copy + g_file.size);
  assert_int_equal(a->data[0], 64);
  assert_int_equal(crn_gguf_find_tensor(f, "b")->data[5], 5);
  assert_int_equal(e->bytes, 0);
  assert_null(crn_gguf_find_tensor(f, "c"));
  assert_null(crn_gguf_tensor_at(f, 3));
  crn_gguf_close(f);
  free(copy);
}

// One tensor "a" of the given dims, type and offset over 256 bytes of data.
static void one_tensor(int n_dims, const uint64_t *dims, uint32_t type, uint64_t offset, cairn_status wanted) {
  begin(3, 1, 0);
  put_tensor("a", n_dims, dims, type, offset);
  pad_to(32), put_data(256);
  expect(wanted);
}

static void test_hostile_tensors(void **state) {
  (void)state;
  const uint64_t huge = (uint64_t)1 << 62;
  one_tensor(1, (uint64_t[]){64}, CRN_GGUF_F32, 0, CAIRN_OK);
  one_tensor(0, NULL, CRN_GGUF_F32, 224, CAIRN_OK);
  one_tensor(1, (uint64_t[]){65}, CRN_GGUF_F32, 0, CAIRN_CORRUPT);
  one_tensor(1, (uint64_t[]){64}, CRN_GGUF_F32, 32, CAIRN_CORRUPT);
  one_tensor(1, (uint64_t[]){1}, CRN_GGUF_F32, 4, CAIRN_CORRUPT);  // not aligned
  one_tensor(1, (uint64_t[]){1}, CRN_GGUF_F32, UINT64_MAX - 31, CAIRN_CORRUPT);
  one_tensor(1, (uint64_t[]){31}, CRN_GGUF_Q8_0, 0, CAIRN_CORRUPT);
  one_tensor(2, (uint64_t[]){16, 2}, CRN_GGUF_Q8_0, 0, CAIRN_CORRUPT);  // whole blocks, but not in each row
  one_tensor(0, NULL, CRN_GGUF_Q8_0, 0, CAIRN_CORRUPT);
  one_tensor(2, (uint64_t[]){huge, 4}, CRN_GGUF_F16, 0, CAIRN_CORRUPT);
  one_tensor(1, (uint64_t[]){UINT64_MAX}, CRN_GGUF_F16, 0, CAIRN_CORRUPT);
  one_tensor(3, (uint64_t[]){huge, huge, 0}, CRN_GGUF_F16, 0, CAIRN_CORRUPT);
  one_tensor(3, (uint64_t[]){0, huge, huge}, CRN_GGUF_F16, 0, CAIRN_CORRUPT);
  one_tensor(5, (uint64_t[]){1, 1, 1, 1, 1}, CRN_GGUF_F16, 0, CAIRN_CORRUPT);
  one_tensor(1, (uint64_t[]){1}, 4, 0, CAIRN_UNSUPPORTED);  // a type that was taken out of the format
  one_tensor(1, (uint64_t[]){1}, 12345, 0, CAIRN_UNSUPPORTED);
  one_tensor(1, (uint64_t[]){256}, 12, 0, CAIRN_OK);  // Q4_K: a place can be checked, though nobody decodes it
}

static void two_tensors(const char *second, uint64_t offset, cairn_status wanted) {
  begin(3, 2, 0);
  put_tensor("a", 1, (uint64_t[]){16}, CRN_GGUF_F32, 64);
  put_tensor(second, 1, (uint64_t[]){16}, CRN_GGUF_F32, offset);
  pad_to(32), put_data(256);
  expect(wanted);
}

static void test_overlaps_and_names(void **state) {
  (void)state;
  two_tensors("b", 0, CAIRN_OK);
  two_tensors("b", 128, CAIRN_OK);
  two_tensors("b", 64, CAIRN_CORRUPT);
  two_tensors("b", 96, CAIRN_CORRUPT);
  two_tensors("b", 32, CAIRN_CORRUPT);
  two_tensors("a", 0, CAIRN_CORRUPT);
}

static void test_alignment(void **state) {
  (void)state;
  static const struct {
    uint32_t value;
    cairn_status status;
  } cases[] = {{8, CAIRN_OK}, {4096, CAIRN_OK}, {0, CAIRN_CORRUPT}, {1, CAIRN_CORRUPT}, {24, CAIRN_CORRUPT}, {0x80000000, CAIRN_CORRUPT}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    begin(3, 1, 1);
    put_key("general.alignment", CRN_GGUF_UINT32), put_u32(cases[i].value);
    put_tensor("a", 1, (uint64_t[]){1}, CRN_GGUF_F32, 0);
    pad_to(4096), put_data(8);
    expect(cases[i].status);
  }
}

// --- hostile files -----------------------------------------------------------------------------------------------------------

static unsigned char g_sum;

static void touch(crn_gguf_kind kind, const unsigned char **at) {
  crn_gguf_value v;
  const unsigned char *next = crn_gguf_item(kind, *at, &v);
  for (const unsigned char *p = *at; p < next; p++) g_sum ^= *p;
  *at = next;
}

static void check_hostile(const unsigned char *data, size_t bytes) {
  failing_allocator a;
  crn_gguf *f;
  failing_initialize(&a);
  cairn_status status = crn_gguf_open_memory(&a.allocator, data, bytes, "test", &f);
  assert_true(status == CAIRN_OK || status == CAIRN_CORRUPT || status == CAIRN_UNSUPPORTED || status == CAIRN_OUT_OF_RANGE);
  assert_true((status == CAIRN_OK) == (f != NULL));
  for (size_t i = 0; f && i < crn_gguf_pair_count(f); i++) {
    const crn_gguf_value *v = &crn_gguf_pair_at(f, i)->value;
    if (v->kind != CRN_GGUF_ARRAY) continue;
    const unsigned char *at = v->array.data;
    for (size_t k = 0; k < v->array.n; k++) touch(v->array.kind, &at);
  }
  for (size_t i = 0; f && i < crn_gguf_tensor_count(f); i++) {
    const crn_gguf_tensor *t = crn_gguf_tensor_at(f, i);
    if (t->bytes) g_sum ^= (unsigned char)(t->data[0] ^ t->data[t->bytes - 1]);
  }
  crn_gguf_close(f);
  assert_int_equal(a.live, 0);
  assert_true(a.peak < 16 * bytes + 300000);
}

static void test_truncations_and_flips(void **state) {
  (void)state;
  crn_str file = read_test_file("q4_1.gguf");
  for_hostile_variations(file.data, file.size, 2200, check_hostile);
  crn_str_deinitialize(&file);
  begin(3, 1, 13);
  put_every_kind();
  put_tensor("a", 1, (uint64_t[]){16}, CRN_GGUF_F32, 0);
  pad_to(32), put_data(64);
  for_hostile_variations(g_file.data, g_file.size, g_file.size, check_hostile);
}

static void test_every_allocation_failure(void **state) {
  (void)state;
  crn_str file = read_test_file("q4_1.gguf");
  failing_allocator a;
  crn_gguf *f;
  failing_initialize(&a);
  for (long n = 0;; n++) {
    a.left = n;
    cairn_status status = crn_gguf_open_memory(&a.allocator, file.data, file.size, "test", &f);
    if (status == CAIRN_OK) {
      assert_true(n > 5);
      break;
    }
    assert_int_equal(status, CAIRN_OUT_OF_MEMORY);
    assert_int_equal(a.live, 0);
  }
  crn_gguf_close(f);
  assert_int_equal(a.live, 0);
  crn_str_deinitialize(&file);
}

static void test_files(void **state) {
  (void)state;
  crn_gguf *f;
  assert_int_equal(crn_gguf_open(NULL, "/nowhere/at/all", &f), CAIRN_NOT_FOUND);
  assert_int_equal(crn_gguf_open(NULL, "/tmp", &f), CAIRN_IO);
  assert_int_equal(crn_gguf_open(NULL, CAIRN_TEST_DATA "/gguf/bf16.gguf", &f), CAIRN_OK);
  assert_int_equal(crn_gguf_version(f), 2);
  assert_string_equal(crn_gguf_what(f), CAIRN_TEST_DATA "/gguf/bf16.gguf");
  assert_string_equal(crn_gguf_find_tensor(f, "blk.1.ffn_down.weight")->type->name, "BF16");
  crn_gguf_close(f);
  crn_gguf_close(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_kind_of_value),
      cmocka_unit_test(test_hostile_metadata),
      cmocka_unit_test(test_versions),
      cmocka_unit_test(test_tensor_places),
      cmocka_unit_test(test_hostile_tensors),
      cmocka_unit_test(test_overlaps_and_names),
      cmocka_unit_test(test_alignment),
      cmocka_unit_test(test_truncations_and_flips),
      cmocka_unit_test(test_every_allocation_failure),
      cmocka_unit_test(test_files),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
