// What remains of a piece under a split behavior, and the byte-level alphabet.
#include "text/tokenizer/internal.h"

static cairn_status emit(crn_run *run, size_t begin, size_t end, crn_piece_vec *out) {
  if (begin == end) return CAIRN_OK;
  return crn_vec_push(run->allocator, out, crn_text_cut(&run->text, begin, end));
}

// Neighbours are joined as long as `joins` says so. The first stretch can only be joined to, never join.
static cairn_status emit_joined(crn_run *run, const crn_match_vec *m, crn_behavior behavior, crn_piece_vec *out) {
  size_t begin = 0, end = 0;
  bool open = false, previous = false;
  for (size_t i = 0; i < m->size; i++) {
    const crn_match *s = &m->items[i];
    bool joins = behavior == CRN_BEHAVIOR_CONTIGUOUS ? s->hit == previous : s->hit && !previous;
    if (open && joins) {
      end = s->end;
    } else {
      if (open) CRN_TRY(emit(run, begin, end, out));
      begin = s->begin;
      end = s->end;
      open = true;
    }
    previous = s->hit;
  }
  return open ? emit(run, begin, end, out) : CAIRN_OK;
}

// A hit belongs to the part of what follows, unless that is a hit as well.
static bool joins_next(const crn_match_vec *m, size_t i) { return m->items[i].hit && i + 1 < m->size && !m->items[i + 1].hit; }

static cairn_status emit_merged_with_next(crn_run *run, const crn_match_vec *m, crn_piece_vec *out) {
  for (size_t i = 0; i < m->size; i++) {
    size_t begin = m->items[i].begin;
    if (joins_next(m, i)) i++;
    CRN_TRY(emit(run, begin, m->items[i].end, out));
  }
  return CAIRN_OK;
}

cairn_status crn_split_emit(crn_run *run, const crn_match_vec *m, crn_behavior behavior, crn_piece_vec *out) {
  switch (behavior) {
    case CRN_BEHAVIOR_REMOVED:
    case CRN_BEHAVIOR_ISOLATED:
      for (size_t i = 0; i < m->size; i++) {
        if (behavior == CRN_BEHAVIOR_ISOLATED || !m->items[i].hit) CRN_TRY(emit(run, m->items[i].begin, m->items[i].end, out));
      }
      return CAIRN_OK;
    case CRN_BEHAVIOR_MERGED_WITH_NEXT:
      return emit_merged_with_next(run, m, out);
    default:
      return emit_joined(run, m, behavior, out);
  }
}

// Printable Latin-1 characters stand for themselves; the other bytes get the code points from U+0100 on, in order.
static bool stands_for_itself(unsigned byte) { return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xff && byte != 0xad); }

uint32_t crn_byte_char(unsigned char byte) {
  if (stands_for_itself(byte)) return byte;
  if (byte <= 0x20) return 0x100u + byte;
  if (byte < 0xa1) return 0x121u + (byte - 0x7fu);
  return 0x143u;  // 0xad
}

int crn_char_byte(uint32_t code) {
  if (code < 0x100) return stands_for_itself(code) ? (int)code : -1;
  if (code <= 0x120) return (int)(code - 0x100);
  if (code <= 0x142) return (int)(code - 0x121 + 0x7f);
  return code == 0x143 ? 0xad : -1;
}
