#include "import/safetensors.h"

#include <dirent.h>

#include "import/test_support.h"

static const cairn_dtype all_dtypes[] = {CAIRN_BOOL, CAIRN_UI8,  CAIRN_SI8,    CAIRN_UI16,     CAIRN_SI16,     CAIRN_UI32,
                                         CAIRN_SI32, CAIRN_UI64, CAIRN_SI64,   CAIRN_F16,      CAIRN_BF16,     CAIRN_F32,
                                         CAIRN_F64,  CAIRN_C64,  CAIRN_F8E5M2, CAIRN_F8E4M3FN, CAIRN_F8E8M0FNU};
enum { N_DTYPES = sizeof all_dtypes / sizeof *all_dtypes };

static void temporary_path(char *path, size_t bytes) { snprintf(path, bytes, "/tmp/cairn-safetensors-test-%ld", (long)getpid()); }

// --- writing and reading back --------------------------------------------------------------------------------------------

static void test_round_trip_of_every_dtype(void **state) {
  (void)state;
  unsigned char data[24 * 8];
  crn_safetensors_entry entries[N_DTYPES + 4];
  char names[N_DTYPES][32], path[64];
  static const crn_safetensors_pair metadata[] = {{"format", "pt"}, {"quote \"\n", "\xc3\xa4"}};
  for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)(i * 7 + 1);
  size_t n = 0;
  for (; n < N_DTYPES; n++) {
    snprintf(names[n], sizeof names[n], "t %s", cairn_dtype_name(all_dtypes[n]));
    entries[n] = (crn_safetensors_entry){names[n], crn_tensor_make(all_dtypes[n], (int64_t[]){2, 3, 4}, 3, data)};
  }
  entries[n++] = (crn_safetensors_entry){"scalar", crn_tensor_make(CAIRN_F64, NULL, 0, data)};
  entries[n++] = (crn_safetensors_entry){"empty", crn_tensor_make(CAIRN_F32, (int64_t[]){3, 0, 2}, 3, NULL)};
  entries[n++] = (crn_safetensors_entry){"packed", crn_tensor_make(CAIRN_F4E2M1FN, (int64_t[]){3, 4}, 2, data)};
  entries[n - 1].tensor.packed = true;
  crn_tensor transposed = crn_tensor_make(CAIRN_SI16, (int64_t[]){4, 3}, 2, data);
  transposed.strides[0] = 1;
  transposed.strides[1] = 4;
  entries[n++] = (crn_safetensors_entry){"transposed", transposed};
  temporary_path(path, sizeof path);
  assert_int_equal(crn_safetensors_write(NULL, path, entries, n, metadata, 2), CAIRN_OK);

  crn_safetensors *f;
  assert_int_equal(crn_safetensors_open(NULL, path, &f), CAIRN_OK);
  assert_int_equal(crn_safetensors_count(f), n);
  assert_string_equal(crn_safetensors_metadata(f, "format"), "pt");
  assert_string_equal(crn_safetensors_metadata(f, "quote \"\n"), "\xc3\xa4");
  assert_null(crn_safetensors_metadata(f, "absent"));
  assert_null(crn_safetensors_find(f, "absent"));
  assert_null(crn_safetensors_at(f, n));
  for (size_t i = 0; i < n; i++) {
    const crn_safetensors_entry *e = crn_safetensors_find(f, entries[i].name);
    assert_non_null(e);
    assert_int_equal(e->tensor.dtype, entries[i].tensor.dtype);
    assert_true(crn_tensor_same_shape(&e->tensor, &entries[i].tensor));
    assert_int_equal(e->tensor.packed, entries[i].tensor.packed);
    size_t bytes = (size_t)crn_tensor_count(&e->tensor) * cairn_dtype_bytes(e->tensor.dtype);
    if (e->tensor.packed) bytes = 6;
    if (strcmp(e->name, "transposed") && bytes) assert_memory_equal(e->tensor.data, data, bytes);
  }
  const int16_t *t = crn_safetensors_find(f, "transposed")->tensor.data;
  for (int r = 0; r < 4; r++) {
    for (int c = 0; c < 3; c++) assert_int_equal(t[r * 3 + c], ((const int16_t *)(const void *)data)[c * 4 + r]);
  }
  crn_safetensors_close(f);
  unlink(path);
}

static void test_writer_refuses(void **state) {
  (void)state;
  char path[64];
  float x[2] = {1, 2};
  temporary_path(path, sizeof path);
  crn_tensor t = crn_tensor_make(CAIRN_F32, (int64_t[]){2}, 1, x), sub = crn_tensor_make(CAIRN_SI4, (int64_t[]){2}, 1, x), odd = sub;
  odd.dtype = CAIRN_F4E2M1FN;
  odd.packed = true;
  odd.dims[0] = 3;
  const crn_safetensors_entry twice[] = {{"a", t}, {"a", t}}, reserved[] = {{"__metadata__", t}}, int4[] = {{"a", sub}},
                              half[] = {{"a", odd}}, bad[] = {{"\xff", t}};
  const crn_safetensors_pair keys[] = {{"k", "v"}, {"k", "w"}}, bytes[] = {{"k", "\xfe"}};
  assert_int_equal(crn_safetensors_write(NULL, path, twice, 2, NULL, 0), CAIRN_INVALID_ARGUMENT);
  assert_int_equal(crn_safetensors_write(NULL, path, reserved, 1, NULL, 0), CAIRN_INVALID_ARGUMENT);
  assert_int_equal(crn_safetensors_write(NULL, path, bad, 1, NULL, 0), CAIRN_INVALID_ARGUMENT);
  assert_int_equal(crn_safetensors_write(NULL, path, int4, 1, NULL, 0), CAIRN_UNSUPPORTED);
  assert_int_equal(crn_safetensors_write(NULL, path, half, 1, NULL, 0), CAIRN_INVALID_ARGUMENT);
  assert_int_equal(crn_safetensors_write(NULL, path, twice, 1, keys, 2), CAIRN_INVALID_ARGUMENT);
  assert_int_equal(crn_safetensors_write(NULL, path, twice, 1, bytes, 1), CAIRN_INVALID_ARGUMENT);
  assert_false(crn_file_exists(path));
  assert_int_equal(crn_safetensors_write(NULL, "/nowhere/at/all", twice, 1, NULL, 0), CAIRN_NOT_FOUND);
}

static void test_empty_file_of_tensors(void **state) {
  (void)state;
  char path[64];
  crn_safetensors *f;
  temporary_path(path, sizeof path);
  assert_int_equal(crn_safetensors_write(NULL, path, NULL, 0, NULL, 0), CAIRN_OK);
  assert_int_equal(crn_safetensors_open(NULL, path, &f), CAIRN_OK);
  assert_int_equal(crn_safetensors_count(f), 0);
  crn_safetensors_close(f);
  unlink(path);
}

// --- headers ---------------------------------------------------------------------------------------------------------------

static cairn_status open_text(const char *header, size_t data_bytes, crn_safetensors **out) {
  static unsigned char file[4096];
  size_t n = strlen(header);
  memset(file, 0, sizeof file);
  file[0] = (unsigned char)n;
  file[1] = (unsigned char)(n >> 8);
  memcpy(file + 8, header, n);
  for (size_t i = 0; i < data_bytes; i++) file[8 + n + i] = (unsigned char)i;
  return crn_safetensors_open_memory(NULL, file, 8 + n + data_bytes, "test", out);
}

static void expect(const char *header, size_t data_bytes, cairn_status wanted) {
  crn_safetensors *f = NULL;
  cairn_status status = open_text(header, data_bytes, &f);
  if (status != wanted) print_message("%s\n%s\n", header, cairn_last_error()->message);
  assert_int_equal(status, wanted);
  crn_safetensors_close(f);
}

#define A(dtype, shape, begin, end) "\"a\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"
#define B(begin, end) ",\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[" #begin "," #end "]}"

static void expect_rank(int rank, cairn_status wanted) {
  char header[256];
  int n = snprintf(header, sizeof header, "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4],\"shape\":[");
  for (int i = 0; i < rank; i++) n += snprintf(header + n, sizeof header - (size_t)n, i ? ",1" : "1");
  snprintf(header + n, sizeof header - (size_t)n, "]}}");
  expect(header, 4, wanted);
}

static void test_headers(void **state) {
  (void)state;
  expect("{}", 0, CAIRN_OK);
  expect("{" A("F32", "[1]", 0, 4) B(4, 8) "}", 8, CAIRN_OK);
  expect("{" A("F32", "[1]", 4, 8) B(0, 4) "}", 8, CAIRN_OK);
  expect("{" A("F32", "[]", 0, 4) "}  ", 4, CAIRN_OK);
  expect("{" A("F4", "[3,2]", 0, 3) "}", 3, CAIRN_OK);
  expect("{" A("F4", "[3]", 0, 1) "}", 1, CAIRN_CORRUPT);
  expect("{" A("F32", "[0,72057594037927936]", 0, 0) "}", 0, CAIRN_OK);
  expect("{" A("F32", "[0,4611686018427387904,4611686018427387904]", 0, 0) "}", 0, CAIRN_CORRUPT);
  expect("{" A("F32", "[4611686018427387904,4]", 0, 0) "}", 0, CAIRN_CORRUPT);
  expect("{" A("F32", "[99999999999999999999]", 0, 0) "}", 0, CAIRN_CORRUPT);
  expect("{" A("F32", "[-1]", 0, 4) "}", 4, CAIRN_CORRUPT);
  expect("{" A("F32", "[1.0]", 0, 4) "}", 4, CAIRN_CORRUPT);
  expect_rank(CAIRN_MAX_RANK, CAIRN_OK);
  expect_rank(CAIRN_MAX_RANK + 1, CAIRN_UNSUPPORTED);
  expect("{" A("F6_E2M3", "[4]", 0, 3) "}", 3, CAIRN_UNSUPPORTED);
  expect("{" A("F33", "[1]", 0, 4) "}", 4, CAIRN_CORRUPT);
  expect("{" A("F32", "[1]", 0, 4) B(2, 6) "}", 6, CAIRN_CORRUPT);    // overlap
  expect("{" A("U8", "[4]", 0, 4) B(0, 4) "}", 4, CAIRN_CORRUPT);     // the same place
  expect("{" A("F32", "[1]", 0, 4) B(6, 10) "}", 10, CAIRN_CORRUPT);  // a hole
  expect("{" A("F32", "[1]", 0, 4) "}", 5, CAIRN_CORRUPT);            // bytes left over
  expect("{" A("F32", "[1]", 0, 4) "}", 3, CAIRN_CORRUPT);            // data missing
  expect("{" A("F32", "[1]", 4, 0) "}", 4, CAIRN_CORRUPT);
  expect("{" A("F32", "[1]", -4, 0) "}", 4, CAIRN_CORRUPT);
  expect("{" A("F32", "[2]", 0, 4) "}", 4, CAIRN_CORRUPT);
  expect("{" A("F32", "[1]", 0, 4) "," A("F32", "[1]", 4, 8) "}", 8, CAIRN_CORRUPT);  // a name twice
  expect("{\"a\":3}", 0, CAIRN_CORRUPT);
  expect("{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, CAIRN_CORRUPT);
  expect("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, CAIRN_CORRUPT);
  expect("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 4, CAIRN_CORRUPT);
  expect("{\"__metadata__\":{\"a\":1}}", 0, CAIRN_CORRUPT);
  expect("{\"__metadata__\":[]}", 0, CAIRN_CORRUPT);
  expect("[]", 0, CAIRN_CORRUPT);
  expect(" {}", 0, CAIRN_CORRUPT);
  expect("{} {}", 0, CAIRN_CORRUPT);
  expect("{", 0, CAIRN_CORRUPT);
  expect("", 0, CAIRN_CORRUPT);
}

static void test_length_is_bounded(void **state) {
  (void)state;
  unsigned char file[16] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, '{', '}'};
  crn_safetensors *f;
  assert_int_equal(crn_safetensors_open_memory(NULL, file, sizeof file, "test", &f), CAIRN_CORRUPT);
  assert_null(f);
  memset(file + 4, 0, 4);
  assert_int_equal(crn_safetensors_open_memory(NULL, file, sizeof file, "test", &f), CAIRN_CORRUPT);
  assert_int_equal(crn_safetensors_open(NULL, "/nowhere/at/all", &f), CAIRN_NOT_FOUND);
  assert_int_equal(crn_safetensors_open(NULL, "/tmp", &f), CAIRN_IO);
}

static void test_misaligned_tensors_are_moved(void **state) {
  (void)state;
  crn_safetensors *f;
  assert_int_equal(open_text("{" A("F64", "[1]", 4, 12) B(0, 4) "} ", 12, &f), CAIRN_OK);
  const crn_safetensors_entry *e = crn_safetensors_find(f, "a");
  assert_int_equal((uintptr_t)e->tensor.data % 8, 0);
  const unsigned char *p = e->tensor.data;
  for (int i = 0; i < 8; i++) assert_int_equal(p[i], 4 + i);
  assert_string_equal(crn_safetensors_at(f, 0)->name, "b");
  crn_safetensors_close(f);
}

// --- hostile files -----------------------------------------------------------------------------------------------------------

static unsigned char g_sum;

static void check_hostile(const unsigned char *data, size_t bytes) {
  failing_allocator a;
  failing_initialize(&a);
  crn_safetensors *f;
  cairn_status status = crn_safetensors_open_memory(&a.allocator, data, bytes, "test", &f);
  assert_true(status == CAIRN_OK || status == CAIRN_CORRUPT || status == CAIRN_UNSUPPORTED);
  assert_true((status == CAIRN_OK) == (f != NULL));
  for (size_t i = 0; f && i < crn_safetensors_count(f); i++) {
    const crn_tensor *t = &crn_safetensors_at(f, i)->tensor;
    size_t n = (size_t)crn_tensor_count(t) * (size_t)crn_dtype_bits(t->dtype) / 8;
    for (size_t k = 0; k < n; k++) g_sum ^= ((const unsigned char *)t->data)[k];
  }
  crn_safetensors_close(f);
  assert_int_equal(a.live, 0);
  // Names, copies of data and the tables: a small multiple of the file and two blocks of the arenas.
  assert_true(a.peak < 64 * bytes + 300000);
}

static void test_truncations_and_flips(void **state) {
  (void)state;
  crn_str file = read_test_file("bf16.safetensors");
  for_hostile_variations(file.data, file.size, 256, check_hostile);
  crn_str_deinitialize(&file);
}

static void test_every_allocation_failure(void **state) {
  (void)state;
  crn_str file = read_test_file("bf16.safetensors");
  failing_allocator a;
  failing_initialize(&a);
  crn_safetensors *f = NULL;
  long n = 0;
  for (;; n++) {
    a.left = n;
    cairn_status status = crn_safetensors_open_memory(&a.allocator, file.data, file.size, "test", &f);
    if (status == CAIRN_OK) break;
    assert_int_equal(status, CAIRN_OUT_OF_MEMORY);
    assert_int_equal(a.live, 0);
  }
  assert_true(n > 3);
  a.left = -1;
  char path[64];
  temporary_path(path, sizeof path);
  long before = a.live;
  for (n = 0;; n++) {
    a.left = n;
    crn_safetensors_entry e[2] = {*crn_safetensors_at(f, 0), *crn_safetensors_at(f, 1)};
    e[1].tensor.strides[0] = 0;
    cairn_status status = crn_safetensors_write(&a.allocator, path, e, 2, NULL, 0);
    assert_int_equal(a.live, before);
    if (status == CAIRN_OK) break;
    assert_int_equal(status, CAIRN_OUT_OF_MEMORY);
    assert_false(crn_file_exists(path));
  }
  assert_true(n > 3);
  unlink(path);
  crn_safetensors_close(f);
  assert_int_equal(a.live, 0);
  crn_str_deinitialize(&file);
}

// --- genuine files -----------------------------------------------------------------------------------------------------------

static void test_corpus_goldens(void **state) {
  (void)state;
  const char *folder = CAIRN_SHARED_DATA "/corpus/ops";
  DIR *d = opendir(folder);
  if (!d) skip();
  int n = 0;
  for (struct dirent *e = readdir(d); e; e = readdir(d)) {
    char path[1024];
    crn_safetensors *f;
    snprintf(path, sizeof path, "%s/%s/golden.safetensors", folder, e->d_name);
    if (e->d_name[0] == '.' || !crn_file_exists(path)) continue;
    cairn_status status = crn_safetensors_open(NULL, path, &f);
    if (status != CAIRN_OK) print_message("%s\n", cairn_last_error()->message);
    assert_int_equal(status, CAIRN_OK);
    assert_true(crn_safetensors_count(f) > 0);
    crn_safetensors_close(f);
    n++;
  }
  closedir(d);
  assert_true(n > 100);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip_of_every_dtype),
      cmocka_unit_test(test_writer_refuses),
      cmocka_unit_test(test_empty_file_of_tensors),
      cmocka_unit_test(test_headers),
      cmocka_unit_test(test_length_is_bounded),
      cmocka_unit_test(test_misaligned_tensors_are_moved),
      cmocka_unit_test(test_truncations_and_flips),
      cmocka_unit_test(test_every_allocation_failure),
      cmocka_unit_test(test_corpus_goldens),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
