// Tokens back to text as SentencePiece does it: bytes become characters one by one, and the space that stands in front of a
// text is dropped.
#include <string.h>

#include "text/tokenizer/decoders.h"

static const char MARK[] = "\xe2\x96\x81";

static cairn_status give(crn_decoding *d, size_t stage, const char *text, size_t bytes) {
  if (bytes) d->states[stage].started = true;
  return crn_decoding_feed(d, stage + 1, text, bytes);
}

// Whole characters of the held bytes go on; each byte that is part of none is U+FFFD. `all` false keeps a character that may
// still be completed.
static cairn_status flush(crn_decoding *d, size_t stage, bool all) {
  crn_str *held = &d->states[stage].held;
  size_t at = 0;
  while (at < held->size) {
    const char *p = held->data + at, *end = held->data + held->size;
    uint32_t code;
    bool valid;
    int used = crn_utf8_decode(p, end, &code, &valid);
    if (!valid && !all && crn_utf8_incomplete_tail(p, held->size - at) == held->size - at) break;
    CRN_TRY(valid ? give(d, stage, p, (size_t)used) : give(d, stage, "\xef\xbf\xbd", 3));
    at += valid ? (size_t)used : 1;
  }
  memmove(held->data, held->data + at, held->size - at);
  held->size -= at;
  return CAIRN_OK;
}

cairn_status crn_decoding_finish_sentencepiece(crn_decoding *d, size_t stage) { return flush(d, stage, true); }

cairn_status crn_decoding_feed_sentencepiece(crn_decoding *d, size_t stage, const char *text, size_t bytes) {
  const crn_decoder *step = &d->tokenizer->decoders[stage];
  crn_decoder_state *s = &d->states[stage];
  int byte = step->bytes ? crn_byte_of_token(text, bytes) : -1;
  if (byte >= 0) {
    CRN_TRY(crn_str_putc(&s->held, (char)byte));
    return flush(d, stage, false);
  }
  CRN_TRY(flush(d, stage, true));
  // The space was dropped (count) or text has gone out (started): from now on all spaces count.
  s->done = s->done || s->count || s->started;
  s->count = 0;
  if (!s->done && step->drop_first && bytes >= 3 && !memcmp(text, MARK, 3)) {
    text += 3;
    bytes -= 3;
    s->count = !step->drop_all;
  }
  crn_str_clear(&s->work);
  CRN_TRY(crn_replace_all(&s->work, text, bytes, (crn_view){MARK, 3}, " ", 1));
  return give(d, stage, s->work.data, s->work.size);
}
