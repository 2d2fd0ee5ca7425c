// Normalizers: each writes a changed copy of run->text into run->spare, then the two trade places.
#include "text/tokenizer/normalizers.h"

#include "text/tokenizer/sentencepiece.h"
#include "text/tokenizer/unicode.h"

// --- character by character ------------------------------------------------------------------------------------------------

typedef bool (*keep_fn)(uint32_t code);
typedef uint32_t (*map_fn)(uint32_t code);

// A kept character is written when the next one is met, because the removed ones in between count as part of it.
static cairn_status filter(crn_run *run, crn_piece whole, keep_fn keep, map_fn map) {
  const char *text = run->text.bytes.data;
  uint32_t code, pending = 0;
  size_t at = whole.begin, leading = 0;
  int removed = 0;
  for (; at < whole.end; leading++) {
    int n = crn_code_at(text + at, &code);
    if (keep(code)) break;
    at += (size_t)n;
  }
  if (at == whole.end) return CAIRN_OK;
  crn_rewrite r = crn_rewrite_begin(&run->text, whole, leading, &run->spare);
  for (bool first = true; at < whole.end;) {
    at += (size_t)crn_code_at(text + at, &code);
    if (!keep(code)) {
      removed++;
      continue;
    }
    if (!first) CRN_TRY(crn_rewrite_put(&r, map ? map(pending) : pending, -removed));
    pending = code;
    removed = 0;
    first = false;
  }
  return crn_rewrite_put(&r, map ? map(pending) : pending, -removed);
}

static bool keep_clean(uint32_t c) { return c == '\t' || c == '\n' || c == '\r' || !(c == 0 || c == 0xfffd || crn_is_other(c)); }
static uint32_t space_for_white(uint32_t c) { return crn_is_whitespace(c) ? ' ' : c; }
static bool keep_unless_nonspacing(uint32_t c) { return !crn_is_nonspacing_mark(c); }
static bool keep_unless_mark(uint32_t c) { return !crn_is_combining_mark(c); }

static bool keep_nmt(uint32_t c) {
  return !((c >= 1 && c <= 8) || c == 0x0b || (c >= 0x0e && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f);
}

static uint32_t map_nmt(uint32_t c) {
  bool blank = c == 9 || c == 0x0a || c == 0x0c || c == 0x0d || c == 0x1680 || (c >= 0x200b && c <= 0x200f) || c == 0x2028 || c == 0x2029 ||
               c == 0x2581 || c == 0xfeff || c == 0xfffd;
  return blank ? ' ' : c;
}

static cairn_status lowercase(crn_run *run, crn_piece whole) {
  crn_rewrite r = crn_rewrite_begin(&run->text, whole, 0, &run->spare);
  for (size_t at = whole.begin; at < whole.end;) {
    uint32_t code, lower[2];
    at += (size_t)crn_code_at(run->text.bytes.data + at, &code);
    int n = crn_lowercase(code, lower);
    for (int i = 0; i < n; i++) CRN_TRY(crn_rewrite_put(&r, lower[i], i > 0));
  }
  return CAIRN_OK;
}

static bool is_chinese(uint32_t c) {
  return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
         (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) || (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

static cairn_status set_chinese_apart(crn_run *run, crn_piece whole) {
  crn_rewrite r = crn_rewrite_begin(&run->text, whole, 0, &run->spare);
  for (size_t at = whole.begin; at < whole.end;) {
    uint32_t code;
    at += (size_t)crn_code_at(run->text.bytes.data + at, &code);
    bool apart = is_chinese(code);
    if (apart) CRN_TRY(crn_rewrite_put(&r, ' ', 0));
    CRN_TRY(crn_rewrite_put(&r, code, apart));
    if (apart) CRN_TRY(crn_rewrite_put(&r, ' ', 1));
  }
  return CAIRN_OK;
}

static cairn_status byte_level(crn_run *run, crn_piece whole) {
  crn_rewrite r = crn_rewrite_begin(&run->text, whole, 0, &run->spare);
  for (size_t at = whole.begin; at < whole.end; at++) {
    unsigned char byte = (unsigned char)run->text.bytes.data[at];
    CRN_TRY(crn_rewrite_put(&r, crn_byte_char(byte), (byte & 0xc0) == 0x80));
  }
  return CAIRN_OK;
}

// --- the rest ------------------------------------------------------------------------------------------------------------------

static cairn_status strip(crn_run *run, crn_piece whole, bool left, bool right) {
  const char *text = run->text.bytes.data;
  size_t begin = whole.begin, end = whole.end;
  uint32_t code;
  while (left && begin < end) {
    int n = crn_code_at(text + begin, &code);
    if (!crn_is_whitespace(code)) break;
    begin += (size_t)n;
  }
  while (right && end > begin) {
    size_t at = end - 1;
    while (((unsigned char)text[at] & 0xc0) == 0x80) at--;
    crn_code_at(text + at, &code);
    if (!crn_is_whitespace(code)) break;
    end = at;
  }
  return crn_text_copy(&run->spare, &run->text, begin, end);
}

/// Writes text that comes from the character before `at` of run->text.
static cairn_status insert(crn_run *run, crn_piece whole, size_t at, crn_view content) {
  if (run->spare.tracked) {
    crn_origin origin = {whole.shift, whole.shift};
    if (at > whole.begin) origin = run->text.origins.items[at - 1];
    CRN_TRY(crn_text_put_origins(&run->spare, origin, content.bytes));
  }
  return crn_str_append(&run->spare.bytes, content.text, content.bytes);
}

static cairn_status replace(crn_run *run, crn_piece whole, const crn_normalizer *n) {
  crn_regex_walk walk;
  size_t done = 0, begin, end;
  bool found;
  if (whole.begin == whole.end) return CAIRN_OK;
  crn_regex_walk_begin(&walk, n->regex, run->room, run->text.bytes.data, whole.end);
  for (;;) {
    CRN_TRY(crn_regex_walk_next(&walk, &found, &begin, &end));
    if (!found) break;
    CRN_TRY(crn_text_copy(&run->spare, &run->text, done, begin));
    CRN_TRY(insert(run, whole, end, n->content));
    CRN_TRY(crn_text_check_size(run->spare.bytes.size));
    done = end;
  }
  return crn_text_copy(&run->spare, &run->text, done, whole.end);
}

static cairn_status prepend(crn_run *run, crn_piece whole, const crn_normalizer *n) {
  if (whole.begin == whole.end) return CAIRN_OK;
  // What is put in front counts as coming from the first character.
  CRN_TRY(insert(run, whole, whole.begin + 1, n->content));
  return crn_text_copy(&run->spare, &run->text, whole.begin, whole.end);
}

static crn_piece begin_step(crn_run *run, uint32_t shift) {
  crn_text_clear(&run->spare);
  return (crn_piece){0, run->text.bytes.size, shift};
}

static cairn_status bert(crn_run *run, uint32_t shift, const crn_normalizer *n) {
  if (n->clean) {
    CRN_TRY(filter(run, begin_step(run, shift), keep_clean, space_for_white));
    crn_run_swap_texts(run);
  }
  if (n->chinese) {
    CRN_TRY(set_chinese_apart(run, begin_step(run, shift)));
    crn_run_swap_texts(run);
  }
  if (n->accents) {
    CRN_TRY(crn_normalize_form(run, begin_step(run, shift), false, false));
    crn_run_swap_texts(run);
    CRN_TRY(filter(run, begin_step(run, shift), keep_unless_nonspacing, NULL));
    crn_run_swap_texts(run);
  }
  if (n->lowercase) {
    CRN_TRY(lowercase(run, begin_step(run, shift)));
    crn_run_swap_texts(run);
  }
  return CAIRN_OK;
}

static cairn_status run_one(crn_run *run, crn_piece whole, const crn_normalizer *n) {
  switch (n->kind) {
    case CRN_NORMALIZER_NFC:
      return crn_normalize_form(run, whole, true, false);
    case CRN_NORMALIZER_NFD:
      return crn_normalize_form(run, whole, false, false);
    case CRN_NORMALIZER_NFKC:
      return crn_normalize_form(run, whole, true, true);
    case CRN_NORMALIZER_NFKD:
      return crn_normalize_form(run, whole, false, true);
    case CRN_NORMALIZER_LOWERCASE:
      return lowercase(run, whole);
    case CRN_NORMALIZER_STRIP_ACCENTS:
      return filter(run, whole, keep_unless_mark, NULL);
    case CRN_NORMALIZER_STRIP:
      return strip(run, whole, n->left, n->right);
    case CRN_NORMALIZER_REPLACE:
      return replace(run, whole, n);
    case CRN_NORMALIZER_PREPEND:
      return prepend(run, whole, n);
    case CRN_NORMALIZER_PRECOMPILED:
      return crn_charsmap_run(run, whole, &n->map);
    case CRN_NORMALIZER_NMT:
      return filter(run, whole, keep_nmt, map_nmt);
    case CRN_NORMALIZER_SENTENCEPIECE:
      return crn_sentencepiece_normalize(run, whole, n->sp);
    default:
      return byte_level(run, whole);
  }
}

cairn_status crn_normalizers_run(crn_run *run, uint32_t shift) {
  const cairn_tokenizer *t = run->tokenizer;
  for (size_t i = 0; i < t->n_normalizers; i++) {
    if (t->normalizers[i].kind == CRN_NORMALIZER_BERT) {
      CRN_TRY(bert(run, shift, &t->normalizers[i]));
      continue;
    }
    CRN_TRY(run_one(run, begin_step(run, shift), &t->normalizers[i]));
    crn_run_swap_texts(run);
    CRN_TRY(crn_text_check_size(run->text.bytes.size));
  }
  return CAIRN_OK;
}
