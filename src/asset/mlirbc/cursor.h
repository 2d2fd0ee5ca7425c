/// A bounds-checked cursor over one section of the container. Every read either succeeds or is a CORRUPT status that
/// names the section and the offset in the file.
#ifndef CRN_ASSET_MLIRBC_CURSOR_H
#define CRN_ASSET_MLIRBC_CURSOR_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct crn_bc_cursor {
  const unsigned char *file;  ///< start of the file, for offsets in messages and for alignment
  const unsigned char *at, *end;
  const char *section;  ///< names the place in messages
} crn_bc_cursor;

/// `return CRN_BC_CORRUPT(cursor, "...")`: a failure with section name and file offset in front.
#define CRN_BC_CORRUPT(c, fmt, ...) \
  CRN_FAIL(CORRUPT, "%s at byte %zu: " fmt, (c)->section, (size_t)((c)->at - (c)->file) __VA_OPT__(, ) __VA_ARGS__)

static inline size_t crn_bc_remaining(const crn_bc_cursor *c) { return (size_t)(c->end - c->at); }

cairn_status crn_bc_read_byte(crn_bc_cursor *c, uint8_t *out_byte);
/// A PrefixVarInt: the trailing zero bits of the first byte count the bytes that follow.
cairn_status crn_bc_read_varint(crn_bc_cursor *c, uint64_t *out_value);
/// A zigzagged PrefixVarInt.
cairn_status crn_bc_read_signed(crn_bc_cursor *c, int64_t *out_value);
/// A count of items that take at least `item_bytes` (not 0) each in what remains of the section, so that no allocation
/// is made for items that cannot be there.
cairn_status crn_bc_read_count(crn_bc_cursor *c, size_t item_bytes, uint32_t *out_count);
/// An index below `limit`; `what` names the kind of thing.
cairn_status crn_bc_read_index(crn_bc_cursor *c, const char *what, size_t limit, uint32_t *out_index);
/// Borrows `bytes` bytes.
cairn_status crn_bc_read_bytes(crn_bc_cursor *c, uint64_t bytes, const unsigned char **out_data);
/// Skips the 0xCB padding up to a file offset that is a multiple of `alignment`.
cairn_status crn_bc_skip_padding(crn_bc_cursor *c, uint64_t alignment);
/// Fails unless everything was read.
cairn_status crn_bc_expect_end(const crn_bc_cursor *c);

/// Reads a section header and gives a cursor over its content.
cairn_status crn_bc_read_section(crn_bc_cursor *c, uint8_t *out_id, crn_bc_cursor *out_content);

#endif
