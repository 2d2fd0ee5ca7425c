#include "text/tokenizer/text.h"

#include <string.h>

void crn_text_initialize(crn_text *text, const cairn_allocator *allocator, bool tracked) {
  *text = (crn_text){.tracked = tracked};
  crn_str_initialize(&text->bytes, allocator);
}

void crn_text_deinitialize(crn_text *text) {
  crn_vec_free(text->bytes.allocator, &text->origins);
  crn_str_deinitialize(&text->bytes);
}

cairn_status crn_text_check_size(size_t bytes) {
  if (bytes <= CRN_MAX_TEXT_BYTES) return CAIRN_OK;
  return CRN_FAIL(OUT_OF_RANGE, "a step made the text longer than %d bytes", CRN_MAX_TEXT_BYTES);
}

void crn_text_clear(crn_text *text) {
  crn_str_clear(&text->bytes);
  text->origins.size = 0;
}

cairn_status crn_text_copy(crn_text *out, const crn_text *in, size_t begin, size_t end) {
  CRN_TRY(crn_str_append(&out->bytes, in->bytes.data + begin, end - begin));
  if (!out->tracked || begin == end) return CAIRN_OK;
  CRN_TRY(crn_vec_reserve(out->bytes.allocator, &out->origins, end - begin));
  memcpy(out->origins.items + out->origins.size, in->origins.items + begin, (end - begin) * sizeof *in->origins.items);
  out->origins.size += end - begin;
  return CAIRN_OK;
}

cairn_status crn_text_input(crn_text *out, const char *bytes, size_t n, uint32_t offset) {
  CRN_TRY(crn_str_append(&out->bytes, bytes, n));
  if (!out->tracked) return CAIRN_OK;
  CRN_TRY(crn_vec_reserve(out->bytes.allocator, &out->origins, n));
  for (size_t i = 0; i < n;) {
    size_t used = (size_t)crn_code_bytes((unsigned char)bytes[i]);
    crn_origin origin = {offset + (uint32_t)i, offset + (uint32_t)(i + used)};
    for (size_t end = i + used; i < end && i < n; i++) out->origins.items[out->origins.size++] = origin;
  }
  return CAIRN_OK;
}

cairn_status crn_text_put_origins(crn_text *out, crn_origin origin, size_t n) {
  if (!out->tracked) return CAIRN_OK;
  CRN_TRY(crn_vec_reserve(out->bytes.allocator, &out->origins, n));
  for (size_t i = 0; i < n; i++) out->origins.items[out->origins.size++] = origin;
  return CAIRN_OK;
}

crn_piece crn_text_cut(const crn_text *text, size_t begin, size_t end) {
  return (crn_piece){begin, end, text->tracked && begin < end ? text->origins.items[begin].begin : 0};
}

crn_rewrite crn_rewrite_begin(const crn_text *in, crn_piece piece, size_t skip, crn_text *out) {
  crn_rewrite r = {.in = in, .out = out, .at = piece.begin, .end = piece.end, .begin = piece.begin, .shift = piece.shift};
  for (; skip && r.at < r.end; skip--) r.at += (size_t)crn_code_bytes((unsigned char)in->bytes.data[r.at]);
  return r;
}

static cairn_status put_origins(crn_rewrite *r, size_t n, int change) {
  crn_origin origin = {r->shift, r->shift};
  if (change > 0) {
    if (r->at > r->begin) origin = r->in->origins.items[r->at - 1];
  } else {
    if (r->at < r->end) origin = r->in->origins.items[r->at];
  }
  return crn_text_put_origins(r->out, origin, n);
}

cairn_status crn_rewrite_bytes(crn_rewrite *r, const char *bytes, size_t n, int change) {
  if (r->out->tracked) CRN_TRY(put_origins(r, n, change));
  for (int used = change > 0 ? 0 : 1 - change; used && r->at < r->end; used--) {
    r->at += (size_t)crn_code_bytes((unsigned char)r->in->bytes.data[r->at]);
  }
  return crn_str_append(&r->out->bytes, bytes, n);
}

cairn_status crn_rewrite_put(crn_rewrite *r, uint32_t code, int change) {
  char bytes[4];
  int n = crn_utf8_encode(code, bytes);
  return crn_rewrite_bytes(r, bytes, (size_t)n, change);
}

int crn_code_bytes(unsigned char first) { return first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4; }

int crn_code_at(const char *p, uint32_t *out_code) {
  const unsigned char *u = (const unsigned char *)p;
  if (u[0] < 0x80) return *out_code = u[0], 1;
  if (u[0] < 0xe0) return *out_code = (u[0] & 0x1fu) << 6 | (u[1] & 0x3fu), 2;
  if (u[0] < 0xf0) return *out_code = (u[0] & 0x0fu) << 12 | (u[1] & 0x3fu) << 6 | (u[2] & 0x3fu), 3;
  *out_code = (u[0] & 0x07u) << 18 | (u[1] & 0x3fu) << 12 | (u[2] & 0x3fu) << 6 | (u[3] & 0x3fu);
  return 4;
}

bool crn_is_ascii(const char *text, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if ((unsigned char)text[i] >= 0x80) return false;
  }
  return true;
}

bool crn_is_utf8(const char *text, size_t n) {
  for (const char *p = text, *end = text + n; p < end;) {
    uint32_t code;
    bool valid;
    if ((unsigned char)*p < 0x80) {
      p++;
      continue;
    }
    p += crn_utf8_decode(p, end, &code, &valid);
    if (!valid) return false;
  }
  return true;
}
