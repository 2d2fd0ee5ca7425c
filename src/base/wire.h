/// Reading Protocol Buffers messages field by field, without a schema and without recursion.
#ifndef CRN_BASE_WIRE_H
#define CRN_BASE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"

/// What is left of a message.
typedef struct crn_wire {
  const unsigned char *at, *end;
  const char *what;  ///< names the message in errors
} crn_wire;

typedef enum crn_wire_type {
  CRN_WIRE_VARINT = 0,
  CRN_WIRE_FIXED64 = 1,
  CRN_WIRE_BYTES = 2,
  CRN_WIRE_FIXED32 = 5,
} crn_wire_type;

typedef struct crn_wire_field {
  uint32_t number;
  crn_wire_type type;
  uint64_t value;             ///< of a number
  const unsigned char *data;  ///< of bytes, strings and messages; borrowed
  size_t bytes;
} crn_wire_field;

crn_wire crn_wire_begin(const void *data, size_t bytes, const char *what);
/// Takes the next field; `*out_more` false at the end. Errors: CORRUPT (cut off, number too long, field 0, groups).
cairn_status crn_wire_next(crn_wire *wire, crn_wire_field *out_field, bool *out_more);

/// The value of a field that must be of the kind asked for. Errors: CORRUPT naming the field.
cairn_status crn_wire_int32(const crn_wire *wire, const crn_wire_field *field, int32_t *out);
cairn_status crn_wire_bool(const crn_wire *wire, const crn_wire_field *field, bool *out);
cairn_status crn_wire_float(const crn_wire *wire, const crn_wire_field *field, float *out);
cairn_status crn_wire_check_bytes(const crn_wire *wire, const crn_wire_field *field);

#endif
