// The normal form of a text as SentencePiece makes it: the character map, spaces, the space in front.
#include <string.h>

#include "text/tokenizer/sentencepiece.h"

static const char SPACE[] = "\xe2\x96\x81";

size_t crn_sentencepiece_step(const crn_sentencepiece *sp, const char *text, size_t bytes, bool *out_user) {
  int32_t id;
  size_t n = sp->user.nodes ? crn_trie_longest(&sp->user, text, bytes, &id) : 0;
  if (out_user) *out_user = n > 0;
  return n ? n : (size_t)crn_code_bytes((unsigned char)*text);
}

/// What the front of a text becomes, and how much of it that is. User-defined pieces stay as they are.
static size_t normal_front(const crn_sentencepiece *sp, const char *text, size_t bytes, crn_view *out) {
  bool user;
  size_t n = crn_sentencepiece_step(sp, text, bytes, &user);
  if (user) return *out = (crn_view){text, n}, n;
  size_t used = crn_charsmap_longest(&sp->map, text, bytes, out);
  if (used) return used;
  // A damaged map may end in the middle of a character; what is left of it cannot be read.
  if (((unsigned char)*text & 0xc0) == 0x80) return *out = (crn_view){"\xef\xbf\xbd", 3}, 1;
  return *out = (crn_view){text, n}, n;
}

typedef struct writer {
  crn_run *run;
  const crn_sentencepiece *sp;
  crn_piece whole;
} writer;

/// The place in the input of a place in the text.
static uint32_t origin(const writer *w, size_t at) {
  const crn_text *in = &w->run->text;
  if (!in->tracked) return 0;
  if (at < w->whole.end) return in->origins.items[at].begin;
  return w->whole.end > w->whole.begin ? in->origins.items[w->whole.end - 1].end : w->whole.shift;
}

// Only where a piece of text begins is known yet; it ends where the next one begins.
static cairn_status put(writer *w, const char *text, size_t n, size_t at) {
  uint32_t begin = origin(w, at);
  CRN_TRY(crn_text_put_origins(&w->run->spare, (crn_origin){begin, begin}, n));
  return crn_str_append(&w->run->spare.bytes, text, n);
}

static cairn_status put_space(writer *w, size_t at) { return w->sp->escape ? put(w, SPACE, 3, at) : put(w, " ", 1, at); }

static cairn_status put_front(writer *w, crn_view front, size_t at) {
  for (size_t from = 0; from < front.bytes;) {
    const char *space = memchr(front.text + from, ' ', front.bytes - from);
    size_t to = space ? (size_t)(space - front.text) : front.bytes;
    CRN_TRY(put(w, front.text + from, to - from, at));
    if (space) CRN_TRY(put_space(w, at));
    from = to + (space != NULL);
  }
  return CAIRN_OK;
}

// Spaces at the end go; the text ends where the first of them was.
static size_t drop_trailing(writer *w, size_t end) {
  crn_text *out = &w->run->spare;
  size_t n = w->sp->escape ? 3 : 1;
  const char *space = w->sp->escape ? SPACE : " ";
  while (out->bytes.size >= n && !memcmp(out->bytes.data + out->bytes.size - n, space, n)) {
    out->bytes.size -= n;
    out->bytes.data[out->bytes.size] = 0;
    if (out->tracked) {
      out->origins.size -= n;
      end = out->origins.items[out->origins.size].begin;
    }
  }
  return end;
}

static void end_origins(crn_text *out, uint32_t end) {
  for (size_t i = out->origins.size; i-- > 0;) {
    out->origins.items[i].end = end;
    end = out->origins.items[i].begin;
  }
}

static bool ends_in_space(crn_view v) { return v.bytes && v.text[v.bytes - 1] == ' '; }

static cairn_status write_fronts(writer *w, size_t *in_out_at) {
  const crn_sentencepiece *sp = w->sp;
  const char *text = w->run->text.bytes.data;
  bool behind_space = sp->remove_extra;
  for (size_t at = *in_out_at; at < w->whole.end;) {
    crn_view front;
    size_t used = normal_front(sp, text + at, w->whole.end - at, &front);
    for (; behind_space && front.bytes && *front.text == ' '; front.bytes--) front.text++;
    if (front.bytes) {
      CRN_TRY(put_front(w, front, at));
      CRN_TRY(crn_text_check_size(w->run->spare.bytes.size));
      behind_space = sp->remove_extra && ends_in_space(front);
    }
    *in_out_at = at += used;
  }
  return CAIRN_OK;
}

cairn_status crn_sentencepiece_normalize(crn_run *run, crn_piece whole, const crn_sentencepiece *sp) {
  writer w = {run, sp, whole};
  const char *text = run->text.bytes.data;
  size_t at = whole.begin;
  while (sp->remove_extra && at < whole.end) {
    crn_view front;
    size_t used = normal_front(sp, text + at, whole.end - at, &front);
    if (front.bytes != 1 || *front.text != ' ') break;
    at += used;
  }
  if (at == whole.end) return CAIRN_OK;
  if (sp->dummy_prefix && !sp->space_at_end) CRN_TRY(put_space(&w, at));
  CRN_TRY(write_fronts(&w, &at));
  uint32_t end = origin(&w, at);
  if (sp->remove_extra) end = (uint32_t)drop_trailing(&w, end);
  if (sp->dummy_prefix && sp->space_at_end) {
    CRN_TRY(crn_text_put_origins(&run->spare, (crn_origin){end, end}, sp->escape ? 3 : 1));
    CRN_TRY(crn_str_append(&run->spare.bytes, sp->escape ? SPACE : " ", sp->escape ? 3 : 1));
  }
  if (run->spare.tracked) end_origins(&run->spare, end);
  return CAIRN_OK;
}
