// SentencePiece's precompiled character map.
#include <string.h>
#include <utf8proc.h>

#include "text/tokenizer/normalizers.h"
#include "text/tokenizer/unicode.h"

// --- loading ---------------------------------------------------------------------------------------------------------

static int base64_value(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/// Returns the number of bytes written, or SIZE_MAX when the text is no base64.
static size_t decode_base64(const char *text, size_t n, unsigned char *out) {
  size_t bytes = 0;
  if (n % 4) return SIZE_MAX;
  for (size_t i = 0; i < n; i += 4) {
    int pad = i + 4 == n ? (text[i + 3] == '=') + (text[i + 3] == '=' && text[i + 2] == '=') : 0;
    uint32_t word = 0;
    for (int k = 0; k < 4; k++) {
      int v = k >= 4 - pad ? 0 : base64_value(text[i + (size_t)k]);
      if (v < 0) return SIZE_MAX;
      word = word << 6 | (uint32_t)v;
    }
    for (int k = 0; k < 3 - pad; k++) out[bytes++] = (unsigned char)(word >> (16 - 8 * k));
  }
  return bytes;
}

static uint32_t read_word(const unsigned char *p) {
  return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

// `data` lives in the arena.
static cairn_status read_map(crn_build *build, const unsigned char *data, size_t n, const char *where, crn_charsmap *map) {
  uint32_t *units;
  uint32_t trie_bytes = n >= 4 ? read_word(data) : 0;
  if (n < 4 || trie_bytes > n - 4) return CRN_FAIL(CORRUPT, "%s: 'precompiled_charsmap' is cut off", where);
  map->n_units = trie_bytes / 4;
  CRN_TRY(crn_arena_array(&build->tokenizer->arena, map->n_units, sizeof *units, &units));
  for (size_t i = 0; i < map->n_units; i++) units[i] = read_word(data + 4 + 4 * i);
  map->units = units;
  map->texts = (const char *)data + 4 + 4 * map->n_units;
  map->text_bytes = n - 4 - 4 * map->n_units;
  if (!crn_is_utf8(map->texts, map->text_bytes)) return CRN_FAIL(CORRUPT, "%s: the texts of 'precompiled_charsmap' are not UTF-8", where);
  return CAIRN_OK;
}

cairn_status crn_charsmap_load(crn_build *build, const char *base64, size_t bytes, const char *where, crn_charsmap *map) {
  unsigned char *data;
  CRN_TRY(crn_arena_alloc(&build->tokenizer->arena, bytes / 4 * 3 + 4, &data));
  size_t n = decode_base64(base64, bytes, data);
  if (n == SIZE_MAX) return CRN_FAIL(CORRUPT, "%s: 'precompiled_charsmap' is not base64", where);
  return read_map(build, data, n, where, map);
}

cairn_status crn_charsmap_copy(crn_build *build, const void *bytes, size_t n, const char *where, crn_charsmap *map) {
  unsigned char *data;
  CRN_TRY(crn_arena_alloc(&build->tokenizer->arena, n + 4, &data));
  if (n) memcpy(data, bytes, n);
  return read_map(build, data, n, where, map);
}

// --- looking up ----------------------------------------------------------------------------------------------------------

static uint32_t unit_offset(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }

static bool text_of_node(const crn_charsmap *map, size_t node, crn_view *out) {
  if (node >= map->n_units) return false;
  size_t value = map->units[node] & 0x7fffffff;
  if (value >= map->text_bytes || ((unsigned char)map->texts[value] & 0xc0) == 0x80) return false;
  const char *text = map->texts + value, *end = memchr(text, 0, map->text_bytes - value);
  *out = (crn_view){text, end ? (size_t)(end - text) : map->text_bytes - value};
  return true;
}

// The shortest prefix that has an entry decides, and its text stands for the whole row of characters.
static bool look_up(const crn_charsmap *map, const char *row, size_t n, crn_view *out) {
  if (!map->n_units) return false;
  size_t node = unit_offset(map->units[0]);
  for (size_t i = 0; i < n && row[i]; i++) {
    node ^= (unsigned char)row[i];
    if (node >= map->n_units) return false;
    uint32_t unit = map->units[node];
    if ((unit & (1u << 31 | 0xff)) != (unsigned char)row[i]) return false;
    node ^= unit_offset(unit);
    if (unit >> 8 & 1) return text_of_node(map, node, out);
  }
  return false;
}

size_t crn_charsmap_longest(const crn_charsmap *map, const char *text, size_t bytes, crn_view *out) {
  size_t longest = 0;
  size_t node = map->n_units ? unit_offset(map->units[0]) : 0;
  for (size_t i = 0; i < bytes && text[i] && map->n_units; i++) {
    node ^= (unsigned char)text[i];
    if (node >= map->n_units) break;
    uint32_t unit = map->units[node];
    if ((unit & (1u << 31 | 0xff)) != (unsigned char)text[i]) break;
    node ^= unit_offset(unit);
    if (unit >> 8 & 1 && text_of_node(map, node, out)) longest = i + 1;
  }
  return longest;
}

// --- applying ------------------------------------------------------------------------------------------------------------

/// Writes characters one late, because what follows can still add removed characters to the last one.
typedef struct writer {
  crn_rewrite rewrite;
  bool pending;
  uint32_t code;
  int change;
} writer;

static cairn_status flush(writer *w) {
  bool pending = w->pending;
  w->pending = false;
  return pending ? crn_rewrite_put(&w->rewrite, w->code, w->change) : CAIRN_OK;
}

static cairn_status put(writer *w, uint32_t code, int change) {
  CRN_TRY(flush(w));
  w->pending = true;
  w->code = code;
  w->change = change;
  return CAIRN_OK;
}

static int count_chars(const char *text, size_t n) {
  int count = 0;
  for (size_t i = 0; i < n; i++) count += ((unsigned char)text[i] & 0xc0) != 0x80;
  return count;
}

static cairn_status put_replacement(writer *w, const char *old, size_t old_bytes, crn_view fresh) {
  int n_old = count_chars(old, old_bytes), n_new = count_chars(fresh.text, fresh.bytes), i = 0;
  for (size_t at = 0; at < fresh.bytes; i++) {
    uint32_t code;
    at += (size_t)crn_code_at(fresh.text + at, &code);
    CRN_TRY(put(w, code, i >= n_old));
  }
  if (n_new < n_old && w->pending) w->change += n_new - n_old;
  return CAIRN_OK;
}

static cairn_status put_cluster(writer *w, const crn_charsmap *map, const char *text, size_t n) {
  crn_view fresh;
  // Longer clusters are looked up character by character; the limit is the reference's.
  if (n < 6 && look_up(map, text, n, &fresh)) return put_replacement(w, text, n, fresh);
  for (size_t at = 0; at < n;) {
    uint32_t code;
    size_t used = (size_t)crn_code_at(text + at, &code);
    if (look_up(map, text + at, used, &fresh)) {
      CRN_TRY(put_replacement(w, text + at, used, fresh));
    } else {
      CRN_TRY(put(w, code, 0));
    }
    at += used;
  }
  return CAIRN_OK;
}

static size_t cluster_end(const char *text, size_t at, size_t end) {
  uint32_t code, next;
  utf8proc_int32_t state = 0;
  at += (size_t)crn_code_at(text + at, &code);
  while (at < end) {
    int n = crn_code_at(text + at, &next);
    // Any mark that utf8proc knows stands in for those it may not know yet.
    if (crn_is_newer_mark(next)) next = 0x300;
    if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)code, (utf8proc_int32_t)next, &state)) break;
    code = next;
    at += (size_t)n;
  }
  return at;
}

cairn_status crn_charsmap_run(crn_run *run, crn_piece whole, const crn_charsmap *map) {
  const char *text = run->text.bytes.data;
  writer w = {.rewrite = crn_rewrite_begin(&run->text, whole, 0, &run->spare)};
  for (size_t at = whole.begin; at < whole.end;) {
    size_t end = cluster_end(text, at, whole.end);
    CRN_TRY(put_cluster(&w, map, text + at, end - at));
    at = end;
  }
  return flush(&w);
}
