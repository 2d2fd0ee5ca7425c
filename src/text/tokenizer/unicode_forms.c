// Normalization forms of Unicode 9, which is what the reference library normalizes by: characters that came later stay as
// they are. The decompositions themselves come from utf8proc.
#include <stdlib.h>
#include <utf8proc.h>

#include "text/tokenizer/normalizers.h"
#include "text/tokenizer/unicode.h"

/// A character of the decomposed text.
typedef struct unit {
  uint32_t code;
  int32_t change;  ///< as crn_rewrite counts
  uint32_t order;  ///< place in its row of marks, to keep the sorting stable
  int combining;   ///< canonical combining class
} unit;

typedef CRN_VEC(unit) unit_vec;

static bool is_newer(uint32_t c) {
  static const struct {
    uint32_t first, last;
  } newer[] = {
      {0x32ff, 0x32ff},   {0xa7f1, 0xa7f4},   {0xab69, 0xab69},   {0x105c9, 0x105c9}, {0x105e4, 0x105e4},
      {0x10781, 0x107ba}, {0x11383, 0x11391}, {0x113c5, 0x113c8}, {0x11938, 0x11938}, {0x16121, 0x16128},
      {0x16d68, 0x16d6a}, {0x1ccd6, 0x1ccf9}, {0x1e030, 0x1e06d}, {0x1f16c, 0x1f16c}, {0x1fbf0, 0x1fbf9},
  };
  for (size_t i = 0; i < sizeof newer / sizeof *newer; i++) {
    if (c >= newer[i].first && c <= newer[i].last) return true;
  }
  return false;
}

static int combining_class(uint32_t c) {
  if (c < 0x300 || !crn_is_combining_mark(c)) return 0;
  return utf8proc_get_property((utf8proc_int32_t)c)->combining_class;
}

static cairn_status decompose_char(const cairn_allocator *a, uint32_t code, bool compatible, unit_vec *out) {
  utf8proc_int32_t parts[32] = {(utf8proc_int32_t)code};
  utf8proc_ssize_t n = 1;
  if (code >= 0x80 && !is_newer(code)) {
    n = utf8proc_decompose_char((utf8proc_int32_t)code, parts, 32, UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0), NULL);
    // Nothing decomposes into more than 18 characters and every code point is valid, so the library has no way to fail.
    if (n < 1 || n > 32) return CRN_FAIL(INTERNAL, "U+%04X cannot be decomposed", (unsigned)code);
  }
  for (utf8proc_ssize_t i = 0; i < n; i++) {
    uint32_t part = (uint32_t)parts[i];
    CRN_TRY(crn_vec_push(a, out, ((unit){part, i > 0, (uint32_t)out->size, combining_class(part)})));
  }
  return CAIRN_OK;
}

static int compare_units(const void *x, const void *y) {
  const unit *a = x, *b = y;
  if (a->combining != b->combining) return a->combining < b->combining ? -1 : 1;
  return a->order < b->order ? -1 : 1;
}

static void order_marks(unit_vec *units) {
  for (size_t i = 0; i < units->size;) {
    size_t begin = i;
    bool sorted = true;
    while (i < units->size && units->items[i].combining) {
      sorted = sorted && (i == begin || units->items[i - 1].combining <= units->items[i].combining);
      i++;
    }
    if (!sorted) qsort(units->items + begin, i - begin, sizeof *units->items, compare_units);
    if (i == begin) i++;
  }
}

/// The character two others make together, 0 when there is none.
static uint32_t compose_pair(uint32_t a, uint32_t b) {
  if (b < 0x300 || is_newer(a) || is_newer(b)) return 0;
  utf8proc_int32_t pair[3] = {(utf8proc_int32_t)a, (utf8proc_int32_t)b, 0};
  utf8proc_ssize_t n = utf8proc_normalize_utf32(pair, 2, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  return n == 1 && !is_newer((uint32_t)pair[0]) ? (uint32_t)pair[0] : 0;
}

// In place: characters move to the front as others are taken into them.
static void compose(unit_vec *units) {
  unit *u = units->items;
  size_t n = 0, starter = SIZE_MAX;
  int last = -1;  // combining class of the last mark kept behind the starter, -1 = none
  for (size_t i = 0; i < units->size; i++) {
    unit c = u[i];
    if (starter != SIZE_MAX && (last < 0 || last < c.combining)) {
      uint32_t joined = compose_pair(u[starter].code, c.code);
      if (joined) {
        u[starter].code = joined;
        u[starter].change += c.change - 1;
        continue;
      }
    }
    if (c.combining == 0) {
      starter = n;
      last = -1;
    } else if (starter != SIZE_MAX) {
      last = c.combining;
    }
    u[n++] = c;
  }
  units->size = n;
}

static cairn_status normalize_part(crn_run *run, crn_piece part, bool composed, bool compatible) {
  const char *text = run->text.bytes.data;
  unit_vec units = {0};
  cairn_status status = CAIRN_OK;
  CRN_TRY_GOTO(crn_vec_reserve(run->allocator, &units, part.end - part.begin));
  for (size_t at = part.begin; at < part.end;) {
    uint32_t code;
    at += (size_t)crn_code_at(text + at, &code);
    CRN_TRY_GOTO(decompose_char(run->allocator, code, compatible, &units));
  }
  order_marks(&units);
  if (composed) compose(&units);
  crn_rewrite r = crn_rewrite_begin(&run->text, part, 0, &run->spare);
  for (size_t i = 0; i < units.size; i++) CRN_TRY_GOTO(crn_rewrite_put(&r, units.items[i].code, units.items[i].change));
done:
  crn_vec_free(run->allocator, &units);
  return status;
}

// --- text that is composed already -----------------------------------------------------------------------------------------

bool crn_is_composed(uint32_t c) {
  // Ranges with most of the world's text come first. The rest of a block that holds one such character is taken for the same, unless much
  // text would suffer.
  static const struct {
    uint32_t first, last;
  } letters[] =
      {
          {0x388, 0x482},   {0x48a, 0x52f},   {0x5d0, 0x5ea},   {0x620, 0x64a},   {0x904, 0x939},   {0xe01, 0xe30},   {0xe40, 0xe45},
          {0x10d0, 0x10ff}, {0x2010, 0x20cf}, {0x3041, 0x3096}, {0x30a0, 0x30ff}, {0x4e00, 0xa4cf}, {0xac00, 0xd7a3}, {0x1f300, 0x1faff},
      },
    others[] = {
        {0x340, 0x387},   {0x958, 0x95f},   {0x9be, 0x9df},     {0xa33, 0xa5e},     {0xb3e, 0xb5d},     {0xbbe, 0xbd7},
        {0xc56, 0xc56},   {0xcc2, 0xcd6},   {0xd3e, 0xd57},     {0xdca, 0xddf},     {0xf43, 0xfbc},     {0x102e, 0x102e},
        {0x1100, 0x11ff}, {0x1b35, 0x1b35}, {0x1f00, 0x2001},   {0x2126, 0x212b},   {0x2329, 0x232a},   {0x2adc, 0x2adc},
        {0xd7b0, 0xd7ff}, {0xf900, 0xfb4f}, {0x11000, 0x11fff}, {0x16000, 0x16fff}, {0x1d100, 0x1d1ff}, {0x2f800, 0x2fa1f},
    };
  if (c < 0x300) return true;
  for (size_t i = 0; i < sizeof letters / sizeof *letters && letters[i].first <= c; i++) {
    if (c <= letters[i].last) return true;
  }
  if (c >= 0x3400 && c <= 0xd7a3) return !crn_is_combining_mark(c);
  for (size_t i = 0; i < sizeof others / sizeof *others && others[i].first <= c; i++) {
    if (c <= others[i].last) return false;
  }
  return !crn_is_combining_mark(c);
}

/// Where the first character is that is not composed, counted from `at`, or `end`.
static size_t find_loose(const char *text, size_t at, size_t end) {
  while (at < end) {
    uint32_t code = (unsigned char)text[at];
    size_t n = 1;
    if (code >= 0xcc) {
      n = (size_t)crn_code_at(text + at, &code);
      if (!crn_is_composed(code)) break;
    }
    at += n;
  }
  return at;
}

static size_t previous_char(const char *text, size_t at) {
  do at--;
  while (((unsigned char)text[at] & 0xc0) == 0x80);
  return at;
}

// Composed characters stay as they are but for the last one before others, which may be joined with them.
static cairn_status compose_text(crn_run *run, crn_piece whole) {
  const char *text = run->text.bytes.data;
  for (size_t at = whole.begin; at < whole.end;) {
    size_t loose = find_loose(text, at, whole.end), begin = loose, end = loose;
    if (loose < whole.end && loose > at) begin = previous_char(text, loose);
    CRN_TRY(crn_text_copy(&run->spare, &run->text, at, begin));
    for (uint32_t code; end < whole.end; end += (size_t)crn_code_at(text + end, &code)) {
      crn_code_at(text + end, &code);
      if (crn_is_composed(code)) break;
    }
    crn_piece part = whole;
    part.begin = begin;
    part.end = end;
    if (begin < end) CRN_TRY(normalize_part(run, part, true, false));
    at = end;
  }
  return CAIRN_OK;
}

cairn_status crn_normalize_form(crn_run *run, crn_piece whole, bool composed, bool compatible) {
  if (composed && !compatible) return compose_text(run, whole);
  if (crn_is_ascii(run->text.bytes.data, whole.end)) return crn_text_copy(&run->spare, &run->text, whole.begin, whole.end);
  return normalize_part(run, whole, composed, compatible);
}
