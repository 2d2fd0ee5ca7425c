#include "base/wire.h"

#include <string.h>

#include "base/status.h"

crn_wire crn_wire_begin(const void *data, size_t bytes, const char *what) {
  const unsigned char *at = data;
  return (crn_wire){at, bytes ? at + bytes : at, what};
}

static cairn_status cut_off(const crn_wire *w) { return CRN_FAIL(CORRUPT, "%s is cut off", w->what); }

static cairn_status read_varint(crn_wire *w, uint64_t *out) {
  uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (w->at == w->end) return cut_off(w);
    unsigned char byte = *w->at++;
    // The tenth byte has room for one bit only; more of them are dropped as the format's own readers do.
    if (shift < 64) value |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) return *out = value, CAIRN_OK;
  }
  return CRN_FAIL(CORRUPT, "%s: a number of more than ten bytes", w->what);
}

static cairn_status read_fixed(crn_wire *w, size_t bytes, uint64_t *out) {
  if ((size_t)(w->end - w->at) < bytes) return cut_off(w);
  *out = 0;
  for (size_t i = 0; i < bytes; i++) *out |= (uint64_t)w->at[i] << (8 * i);
  w->at += bytes;
  return CAIRN_OK;
}

static cairn_status read_bytes(crn_wire *w, crn_wire_field *f) {
  uint64_t bytes;
  CRN_TRY(read_varint(w, &bytes));
  if (bytes > (uint64_t)(w->end - w->at)) return cut_off(w);
  f->data = w->at;
  f->bytes = (size_t)bytes;
  w->at += f->bytes;
  return CAIRN_OK;
}

cairn_status crn_wire_next(crn_wire *w, crn_wire_field *f, bool *out_more) {
  uint64_t tag;
  *f = (crn_wire_field){0};
  *out_more = w->at != w->end;
  if (!*out_more) return CAIRN_OK;
  CRN_TRY(read_varint(w, &tag));
  if (tag >> 3 == 0 || tag >> 32) return CRN_FAIL(CORRUPT, "%s: a field with the number %llu", w->what, (unsigned long long)(tag >> 3));
  f->number = (uint32_t)(tag >> 3);
  f->type = (crn_wire_type)(tag & 7);
  switch (f->type) {
    case CRN_WIRE_VARINT:
      return read_varint(w, &f->value);
    case CRN_WIRE_FIXED64:
      return read_fixed(w, 8, &f->value);
    case CRN_WIRE_BYTES:
      return read_bytes(w, f);
    case CRN_WIRE_FIXED32:
      return read_fixed(w, 4, &f->value);
    default:
      return CRN_FAIL(CORRUPT, "%s: field %u is of kind %u, which is not read", w->what, (unsigned)f->number, (unsigned)f->type);
  }
}

static cairn_status check_type(const crn_wire *w, const crn_wire_field *f, crn_wire_type type, const char *wanted) {
  return f->type == type ? CAIRN_OK : CRN_FAIL(CORRUPT, "%s: field %u must be %s", w->what, (unsigned)f->number, wanted);
}

cairn_status crn_wire_int32(const crn_wire *w, const crn_wire_field *f, int32_t *out) {
  CRN_TRY(check_type(w, f, CRN_WIRE_VARINT, "a number"));
  // Negative numbers are written with 64 bits.
  int64_t value = (int64_t)f->value;
  if (value < INT32_MIN || value > INT32_MAX) {
    return CRN_FAIL(CORRUPT, "%s: field %u is %lld, a number of 32 bits expected", w->what, (unsigned)f->number, (long long)value);
  }
  *out = (int32_t)value;
  return CAIRN_OK;
}

cairn_status crn_wire_bool(const crn_wire *w, const crn_wire_field *f, bool *out) {
  CRN_TRY(check_type(w, f, CRN_WIRE_VARINT, "true or false"));
  *out = f->value != 0;
  return CAIRN_OK;
}

cairn_status crn_wire_float(const crn_wire *w, const crn_wire_field *f, float *out) {
  CRN_TRY(check_type(w, f, CRN_WIRE_FIXED32, "a floating-point number"));
  uint32_t bits = (uint32_t)f->value;
  memcpy(out, &bits, sizeof *out);
  return CAIRN_OK;
}

cairn_status crn_wire_check_bytes(const crn_wire *w, const crn_wire_field *f) { return check_type(w, f, CRN_WIRE_BYTES, "bytes"); }
