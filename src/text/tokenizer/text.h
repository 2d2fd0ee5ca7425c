/// The text a tokenizer works on: bytes of valid UTF-8 with, when a later step asks for it, the place in the input each
/// byte came from.
#ifndef CRN_TEXT_TOKENIZER_TEXT_H
#define CRN_TEXT_TOKENIZER_TEXT_H

#include "base/str.h"
#include "base/vec.h"

typedef CRN_VEC(uint32_t) crn_u32_vec;
typedef CRN_VEC(int32_t) crn_i32_vec;

/// A place in the input: what a byte of a text came from.
typedef struct crn_origin {
  uint32_t begin, end;
} crn_origin;

typedef CRN_VEC(crn_origin) crn_origin_vec;

typedef struct crn_text {
  crn_str bytes;
  bool tracked;            ///< whether origins are kept
  crn_origin_vec origins;  ///< of each byte: where in the input the character lies it came from
} crn_text;

/// A part of a text. `shift` is the origin of its first byte at the moment it was cut out; later changes of the text do
/// not move it.
typedef struct crn_piece {
  size_t begin, end;
  uint32_t shift;
} crn_piece;

typedef CRN_VEC(crn_piece) crn_piece_vec;

void crn_text_initialize(crn_text *text, const cairn_allocator *allocator, bool tracked);
void crn_text_deinitialize(crn_text *text);
void crn_text_clear(crn_text *text);
/// Appends bytes [begin, end) of another text with their origins.
cairn_status crn_text_copy(crn_text *out, const crn_text *in, size_t begin, size_t end);
/// Appends n origins; nothing happens when the text does not keep them.
cairn_status crn_text_put_origins(crn_text *out, crn_origin origin, size_t n);
/// Appends a part of the input itself, which starts at `offset` of it.
cairn_status crn_text_input(crn_text *out, const char *bytes, size_t n, uint32_t offset);

/// The part [begin, end) of a text as a piece.
crn_piece crn_text_cut(const crn_text *text, size_t begin, size_t end);

/// Writes a changed copy of a piece, character by character, keeping the origins right. `change` says how a character
/// came about: 0 = it takes the place of the next old character, 1 = it was added, -n = it takes the place of the next
/// old character and n more old ones vanish behind it.
typedef struct crn_rewrite {
  const crn_text *in;
  crn_text *out;
  size_t at, end;  ///< the old characters still to come
  size_t begin;
  uint32_t shift;
} crn_rewrite;

/// The first `skip` old characters vanish.
crn_rewrite crn_rewrite_begin(const crn_text *in, crn_piece piece, size_t skip, crn_text *out);
cairn_status crn_rewrite_put(crn_rewrite *r, uint32_t code, int change);
/// As crn_rewrite_put with the UTF-8 bytes of one character.
cairn_status crn_rewrite_bytes(crn_rewrite *r, const char *bytes, size_t n, int change);

enum { CRN_MAX_TEXT_BYTES = 1 << 28 };
/// Steps may make a text longer; a chain of them must not be able to fill the memory. Errors: OUT_OF_RANGE.
cairn_status crn_text_check_size(size_t bytes);

/// Reads the code point at p of valid UTF-8 and returns its size.
int crn_code_at(const char *p, uint32_t *out_code);
/// Bytes of the character that starts with this byte.
int crn_code_bytes(unsigned char first);
bool crn_is_ascii(const char *text, size_t n);
bool crn_is_utf8(const char *text, size_t n);

#endif
