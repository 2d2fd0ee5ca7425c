/// Builds tiny programs byte by byte, for tests of forms that no writer makes.
#ifndef CRN_ASSET_MLIRBC_TEST_BUILDER_H
#define CRN_ASSET_MLIRBC_TEST_BUILDER_H

#include <stdint.h>
#include <string.h>

/// A PrefixVarInt of one byte, for values up to 127.
#define V(value) (uint8_t)((value) << 1 | 1)

typedef struct test_bytes {
  uint8_t data[1 << 16];
  size_t size;
} test_bytes;

static inline void put(test_bytes *b, const void *data, size_t n) {
  memcpy(b->data + b->size, data, n);
  b->size += n;
}

/// PUT(b, V(1), 0x12, …)
#define PUT(b, ...) put((b), (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static inline void put_varint(test_bytes *b, uint64_t v) {
  PUT(b, 0);
  put(b, &v, sizeof v);  // the nine-byte form is good for every value
}

static inline void put_section(test_bytes *b, uint8_t id, const test_bytes *content) {
  PUT(b, id);
  put_varint(b, content->size);
  put(b, content->data, content->size);
}

enum { OP_ASSET, OP_OPAQUE, OP_ADD, OP_OUTPUT, OP_IF, OP_SIGMOID, OP_UNKNOWN, N_TEST_OPS };

/// The parts of a program. Attribute 0 is a unit that serves as location, type 0 is f32.
typedef struct test_program {
  test_bytes attrs, attr_sizes, types, type_sizes, properties;
  uint32_t n_attrs, n_types, n_properties;
  uint32_t n_main_attrs;    ///< those behind are of the builtin dialect
  size_t main_sizes_bytes;  ///< of `attr_sizes`, what belongs to them
} test_program;

static inline void add_attr_of_form(test_program *p, int custom, const void *record, size_t n) {
  put(&p->attrs, record, n);
  put_varint(&p->attr_sizes, n << 1 | (unsigned)custom);
  p->n_attrs++;
}

/// Attributes added from here on are of the builtin dialect.
static inline void start_builtin_attrs(test_program *p) {
  p->n_main_attrs = p->n_attrs;
  p->main_sizes_bytes = p->attr_sizes.size;
}

#define ADD_ATTR(p, ...) add_attr_of_form((p), 1, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static inline void add_type_of_form(test_program *p, int custom, const void *record, size_t n) {
  put(&p->types, record, n);
  put_varint(&p->type_sizes, n << 1 | (unsigned)custom);
  p->n_types++;
}

#define ADD_TYPE(p, ...) add_type_of_form((p), 1, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

#define ADD_PROPERTIES(p, ...)                                        \
  do {                                                                \
    PUT(&(p)->properties, V(sizeof((const uint8_t[]){__VA_ARGS__}))); \
    PUT(&(p)->properties, __VA_ARGS__);                               \
    (p)->n_properties++;                                              \
  } while (0)

static inline void start_program(test_program *p) {
  memset(p, 0, sizeof *p);
  ADD_ATTR(p, V(46));
  ADD_TYPE(p, V(6));
  ADD_PROPERTIES(p, V(0), V(0));  // of the asset: no source, no version
}

static inline void put_strings(test_bytes *out) {
  static const char *const texts[] = {"aicode",           "serialization.asset",          "serialization.opaque",
                                      "primitive.add_v1", "dataflow.output_v1",           "controlflow.if_v1",
                                      "sigmoid_v1",       "primitive.from_the_future_v9", "builtin"};
  enum { N = sizeof texts / sizeof *texts };
  test_bytes b = {.size = 0};
  PUT(&b, V(N));
  for (int i = N; i-- > 0;) PUT(&b, V(strlen(texts[i]) + 1));
  for (int i = 0; i < N; i++) put(&b, texts[i], strlen(texts[i]) + 1);
  put_section(out, 0, &b);
}

static inline void put_dialects(test_bytes *out) {
  test_bytes b = {.size = 0};
  PUT(&b, V(2), V(0 << 1 | 1), 7, V(1), V(2), V((N_TEST_OPS + 1) << 1), V(N_TEST_OPS), V(0), V(N_TEST_OPS));
  for (int i = 0; i < N_TEST_OPS; i++) PUT(&b, V((i + 1) << 1 | 1));
  put_section(out, 1, &b);
}

/// Puts `region` (the bytes of one region) into an isolated asset and everything together into `out`.
static inline void finish_program(const test_program *p, const test_bytes *region, test_bytes *out) {
  test_bytes b = {.size = 0};
  out->size = 0;
  PUT(out, 'M', 'L', 0xEF, 'R', V(6), 't', 'e', 's', 't', 0);
  put_dialects(out);
  put_varint(&b, p->n_attrs);
  put_varint(&b, p->n_types);
  uint32_t n_main = p->n_main_attrs ? p->n_main_attrs : p->n_attrs;
  size_t main_bytes = p->n_main_attrs ? p->main_sizes_bytes : p->attr_sizes.size;
  PUT(&b, V(0));
  put_varint(&b, n_main);
  put(&b, p->attr_sizes.data, main_bytes);
  PUT(&b, V(1));
  put_varint(&b, p->n_attrs - n_main);
  put(&b, p->attr_sizes.data + main_bytes, p->attr_sizes.size - main_bytes);
  PUT(&b, V(0));
  put_varint(&b, p->n_types);
  put(&b, p->type_sizes.data, p->type_sizes.size);
  put_section(out, 3, &b);
  b = p->attrs;
  put(&b, p->types.data, p->types.size);
  put_section(out, 2, &b);
  b.size = 0;
  PUT(&b, V(1 << 1), V(OP_ASSET), 0x50, V(0), V(0), V(1 << 1 | 1));
  put_section(&b, 4, region);
  put_section(out, 4, &b);
  put_strings(out);
  b.size = 0;
  put_varint(&b, p->n_properties);
  put(&b, p->properties.data, p->properties.size);
  put_section(out, 8, &b);
}

#endif
