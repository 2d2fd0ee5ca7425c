#include "asset/mlirbc/cursor.h"

#include <string.h>

static const char *const k_section_names[] = {"string section",   "dialect section",  "attribute section",
                                              "offset section",   "ir section",       "resource section",
                                              "resource offsets", "dialect versions", "properties section"};

enum { N_SECTION_NAMES = sizeof k_section_names / sizeof *k_section_names, ALIGNED_BIT = 0x80, PADDING_BYTE = 0xCB };

cairn_status crn_bc_read_byte(crn_bc_cursor *c, uint8_t *out) {
  if (c->at == c->end) return CRN_BC_CORRUPT(c, "the data ends too early");
  *out = *c->at++;
  return CAIRN_OK;
}

static uint64_t little_endian(const unsigned char *p, int n) {
  uint64_t v = 0;
  for (int i = 0; i < n; i++) v |= (uint64_t)p[i] << (8 * i);
  return v;
}

cairn_status crn_bc_read_varint(crn_bc_cursor *c, uint64_t *out) {
  if (c->at == c->end) return CRN_BC_CORRUPT(c, "the data ends too early");
  unsigned first = *c->at;
  int extra = first ? __builtin_ctz(first) : 8;
  if (crn_bc_remaining(c) < (size_t)extra + 1) return CRN_BC_CORRUPT(c, "the data ends inside of an integer");
  *out = first ? little_endian(c->at, extra + 1) >> (extra + 1) : little_endian(c->at + 1, 8);
  c->at += extra + 1;
  return CAIRN_OK;
}

cairn_status crn_bc_read_signed(crn_bc_cursor *c, int64_t *out) {
  uint64_t v = 0;
  CRN_TRY(crn_bc_read_varint(c, &v));
  *out = (int64_t)(v >> 1 ^ (0 - (v & 1)));
  return CAIRN_OK;
}

cairn_status crn_bc_read_count(crn_bc_cursor *c, size_t item_bytes, uint32_t *out) {
  uint64_t n = 0;
  CRN_TRY(crn_bc_read_varint(c, &n));
  if (n > crn_bc_remaining(c) / item_bytes || n > INT32_MAX) {
    return CRN_BC_CORRUPT(c, "%llu items announced, %zu bytes left", (unsigned long long)n, crn_bc_remaining(c));
  }
  *out = (uint32_t)n;
  return CAIRN_OK;
}

cairn_status crn_bc_read_index(crn_bc_cursor *c, const char *what, size_t limit, uint32_t *out) {
  uint64_t i = 0;
  CRN_TRY(crn_bc_read_varint(c, &i));
  if (i >= limit) return CRN_BC_CORRUPT(c, "%s index %llu, there are %zu", what, (unsigned long long)i, limit);
  *out = (uint32_t)i;
  return CAIRN_OK;
}

cairn_status crn_bc_read_bytes(crn_bc_cursor *c, uint64_t bytes, const unsigned char **out) {
  if (bytes > crn_bc_remaining(c)) {
    return CRN_BC_CORRUPT(c, "%llu bytes announced, %zu left", (unsigned long long)bytes, crn_bc_remaining(c));
  }
  *out = c->at;
  c->at += bytes;
  return CAIRN_OK;
}

cairn_status crn_bc_skip_padding(crn_bc_cursor *c, uint64_t alignment) {
  if (!alignment || alignment & (alignment - 1)) {
    return CRN_BC_CORRUPT(c, "alignment %llu is not a power of two", (unsigned long long)alignment);
  }
  while ((uint64_t)(c->at - c->file) & (alignment - 1)) {
    if (c->at == c->end) return CRN_BC_CORRUPT(c, "the data ends inside of padding");
    if (*c->at != PADDING_BYTE) return CRN_BC_CORRUPT(c, "padding byte %02X, expected CB", *c->at);
    c->at++;
  }
  return CAIRN_OK;
}

cairn_status crn_bc_expect_end(const crn_bc_cursor *c) {
  if (c->at != c->end) return CRN_BC_CORRUPT(c, "%zu bytes left over", crn_bc_remaining(c));
  return CAIRN_OK;
}

cairn_status crn_bc_read_section(crn_bc_cursor *c, uint8_t *out_id, crn_bc_cursor *out_content) {
  uint8_t head = 0;
  uint64_t bytes = 0, alignment = 0;
  CRN_TRY(crn_bc_read_byte(c, &head));
  CRN_TRY(crn_bc_read_varint(c, &bytes));
  if (head & ALIGNED_BIT) {
    CRN_TRY(crn_bc_read_varint(c, &alignment));
    CRN_TRY(crn_bc_skip_padding(c, alignment));
  }
  uint8_t id = head & ~ALIGNED_BIT;
  if (id >= N_SECTION_NAMES) return CRN_BC_CORRUPT(c, "section id %d, the largest known is %d", id, N_SECTION_NAMES - 1);
  const unsigned char *data = NULL;
  CRN_TRY(crn_bc_read_bytes(c, bytes, &data));
  *out_id = id;
  *out_content = (crn_bc_cursor){c->file, data, data + bytes, k_section_names[id]};
  return CAIRN_OK;
}
