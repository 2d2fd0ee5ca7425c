// Tokens back to text, one token at a time. Decoding a whole list and streaming run through the same stages, so that the
// streamed pieces always add up to the decoded text.
//
// Each stage takes tokens and passes tokens on. Behind a stage that joins all tokens into one (Fuse, ByteLevel) the
// following stages see that single token in parts; a stage that cannot work on parts holds them until the end.
#include "text/tokenizer/decoders.h"

#include <string.h>

static const char REPLACEMENT[] = "\xef\xbf\xbd";

static cairn_status feed(crn_decoding *d, size_t stage, const char *text, size_t bytes);

cairn_status crn_decoding_initialize(crn_decoding *d, const cairn_tokenizer *t) {
  *d = (crn_decoding){.tokenizer = t, .allocator = t->allocator};
  crn_str_initialize(&d->out, t->allocator);
  cairn_status status = crn_alloc_array(t->allocator, t->n_decoders, sizeof *d->states, &d->states);
  if (status == CAIRN_OK) {
    for (size_t i = 0; i < t->n_decoders; i++) {
      crn_str_initialize(&d->states[i].held, t->allocator);
      crn_str_initialize(&d->states[i].work, t->allocator);
    }
    status = crn_regex_room_create(&d->room);
  }
  if (status != CAIRN_OK) crn_decoding_deinitialize(d);
  return status;
}

void crn_decoding_deinitialize(crn_decoding *d) {
  size_t n = d->tokenizer->n_decoders;
  for (size_t i = 0; d->states && i < n; i++) {
    crn_str_deinitialize(&d->states[i].held);
    crn_str_deinitialize(&d->states[i].work);
  }
  crn_free(d->allocator, d->states, n * sizeof *d->states);
  d->states = NULL;
  crn_str_deinitialize(&d->out);
  if (d->room) crn_regex_room_destroy(d->room);
  d->room = NULL;
}

// --- stages that work on whole tokens ----------------------------------------------------------------------------------

static crn_str *begin_work(crn_decoding *d, size_t stage) {
  crn_str_clear(&d->states[stage].work);
  return &d->states[stage].work;
}

static cairn_status pass_on(crn_decoding *d, size_t stage) {
  const crn_str *work = &d->states[stage].work;
  return feed(d, stage + 1, work->data, work->size);
}

static cairn_status replace_regex(crn_decoding *d, const crn_decoder *step, const char *text, size_t bytes, crn_str *out) {
  crn_regex_walk walk;
  size_t last = 0, begin, end;
  bool found;
  // The reference does not look for matches in an empty token.
  if (!bytes) return CAIRN_OK;
  crn_regex_walk_begin(&walk, step->regex, d->room, text, bytes);
  for (;;) {
    CRN_TRY(crn_regex_walk_next(&walk, &found, &begin, &end));
    if (!found) break;
    CRN_TRY(crn_str_append(out, text + last, begin - last));
    CRN_TRY(crn_str_append(out, step->content.text, step->content.bytes));
    CRN_TRY(crn_text_check_size(out->size));
    last = end;
  }
  return crn_str_append(out, text + last, bytes - last);
}

static cairn_status feed_replace(crn_decoding *d, size_t stage, const char *text, size_t bytes) {
  const crn_decoder *step = &d->tokenizer->decoders[stage];
  crn_str *out = begin_work(d, stage);
  if (step->literal.bytes) {
    CRN_TRY(crn_replace_all(out, text, bytes, step->literal, step->content.text, step->content.bytes));
  } else {
    CRN_TRY(replace_regex(d, step, text, bytes, out));
  }
  return pass_on(d, stage);
}

static cairn_status feed_wordpiece(crn_decoding *d, size_t stage, const char *text, size_t bytes) {
  const crn_decoder *step = &d->tokenizer->decoders[stage];
  crn_decoder_state *s = &d->states[stage];
  crn_str *out = begin_work(d, stage);
  if (s->started) {
    if (bytes >= step->content.bytes && !memcmp(text, step->content.text, step->content.bytes)) {
      text += step->content.bytes;
      bytes -= step->content.bytes;
    } else {
      CRN_TRY(crn_str_putc(out, ' '));
    }
  }
  s->started = true;
  CRN_TRY(crn_str_append(out, text, bytes));
  if (step->cleanup) CRN_TRY(crn_cleanup(out));
  return pass_on(d, stage);
}

static cairn_status feed_metaspace(crn_decoding *d, size_t stage, const char *text, size_t bytes) {
  const crn_decoder *step = &d->tokenizer->decoders[stage];
  crn_decoder_state *s = &d->states[stage];
  char mark[4];
  crn_view from = {mark, (size_t)crn_utf8_encode(step->code, mark)};
  bool drop = step->drop_first && !s->started;
  s->started = true;
  CRN_TRY(crn_replace_all(begin_work(d, stage), text, bytes, from, " ", drop ? 0 : 1));
  return pass_on(d, stage);
}

// A token that repeats the one before says nothing new.
static cairn_status feed_ctc(crn_decoding *d, size_t stage, const char *text, size_t bytes) {
  const crn_decoder *step = &d->tokenizer->decoders[stage];
  crn_decoder_state *s = &d->states[stage];
  if (s->started && s->held.size == bytes && !memcmp(s->held.data, text, bytes)) return CAIRN_OK;
  s->started = true;
  crn_str_clear(&s->held);
  CRN_TRY(crn_str_append(&s->held, text, bytes));
  crn_str *out = begin_work(d, stage);
  CRN_TRY(crn_replace_all(out, text, bytes, step->content, "", 0));
  if (step->cleanup) {
    CRN_TRY(crn_cleanup(out));
    CRN_TRY(crn_replace_within(out, step->delimiter, " ", 1));
  }
  return out->size ? pass_on(d, stage) : CAIRN_OK;
}

static cairn_status pass_bpe(crn_decoding *d, size_t stage, bool last) {
  const crn_decoder *step = &d->tokenizer->decoders[stage];
  crn_decoder_state *s = &d->states[stage];
  CRN_TRY(crn_replace_all(begin_work(d, stage), s->held.data, s->held.size, step->content, " ", last ? 0 : 1));
  return pass_on(d, stage);
}

// Only the last token loses its suffix without a space, so one token is always held.
static cairn_status feed_bpe(crn_decoding *d, size_t stage, const char *text, size_t bytes) {
  crn_decoder_state *s = &d->states[stage];
  if (s->started) CRN_TRY(pass_bpe(d, stage, false));
  s->started = true;
  crn_str_clear(&s->held);
  return crn_str_append(&s->held, text, bytes);
}

static cairn_status strip_whole(crn_decoding *d, size_t stage, const char *text, size_t bytes) {
  const crn_decoder *step = &d->tokenizer->decoders[stage];
  char mark[4];
  size_t n = (size_t)crn_utf8_encode(step->code, mark);
  for (size_t i = 0; i < step->start && bytes >= n && !memcmp(text, mark, n); i++) text += n, bytes -= n;
  for (size_t i = 0; i < step->stop && bytes >= n && !memcmp(text + bytes - n, mark, n); i++) bytes -= n;
  return feed(d, stage + 1, text, bytes);
}

// --- byte tokens ---------------------------------------------------------------------------------------------------------

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int crn_byte_of_token(const char *text, size_t bytes) {
  if (bytes != 6 || memcmp(text, "<0x", 3) || text[5] != '>') return -1;
  int high = text[3] == '+' ? 0 : hex_digit(text[3]), low = hex_digit(text[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

// A row of byte tokens is text when all of it is UTF-8; otherwise each of the bytes is unreadable.
static cairn_status flush_bytes(crn_decoding *d, size_t stage) {
  crn_decoder_state *s = &d->states[stage];
  cairn_status status = CAIRN_OK;
  if (!s->held.size) return CAIRN_OK;
  if (crn_is_utf8(s->held.data, s->held.size)) {
    status = feed(d, stage + 1, s->held.data, s->held.size);
  } else {
    for (size_t i = 0; i < s->held.size && status == CAIRN_OK; i++) status = feed(d, stage + 1, REPLACEMENT, 3);
  }
  crn_str_clear(&s->held);
  return status;
}

static cairn_status feed_byte_fallback(crn_decoding *d, size_t stage, const char *text, size_t bytes) {
  int byte = crn_byte_of_token(text, bytes);
  if (byte >= 0) return crn_str_putc(&d->states[stage].held, (char)byte);
  CRN_TRY(flush_bytes(d, stage));
  return feed(d, stage + 1, text, bytes);
}

// Passes on the held bytes as UTF-8; `all` false keeps a character that may still be completed.
static cairn_status flush_utf8(crn_decoding *d, size_t stage, bool all) {
  crn_str *held = &d->states[stage].held;
  size_t tail = all ? 0 : crn_utf8_incomplete_tail(held->data, held->size), n = held->size - tail;
  crn_str *out = begin_work(d, stage);
  for (const char *p = held->data, *end = p + n; p < end;) {
    uint32_t code;
    bool valid;
    int used = crn_utf8_decode(p, end, &code, &valid);
    CRN_TRY(valid ? crn_str_append(out, p, (size_t)used) : crn_str_append(out, REPLACEMENT, 3));
    p += used;
  }
  memmove(held->data, held->data + n, tail);
  held->size = tail;
  return pass_on(d, stage);
}

static bool is_byte_level(const char *text, size_t bytes) {
  for (size_t at = 0; at < bytes;) {
    uint32_t code;
    at += (size_t)crn_code_at(text + at, &code);
    if (crn_char_byte(code) < 0) return false;
  }
  return true;
}

// A token with any character outside the alphabet stands for itself as a whole.
static cairn_status feed_byte_level(crn_decoding *d, size_t stage, const char *text, size_t bytes) {
  crn_str *held = &d->states[stage].held;
  if (!is_byte_level(text, bytes)) {
    CRN_TRY(crn_str_append(held, text, bytes));
  } else {
    for (size_t at = 0; at < bytes;) {
      uint32_t code;
      at += (size_t)crn_code_at(text + at, &code);
      CRN_TRY(crn_str_putc(held, (char)crn_char_byte(code)));
    }
  }
  return flush_utf8(d, stage, false);
}

// --- stages behind a join: one token in parts ----------------------------------------------------------------------------

static cairn_status part_strip(crn_decoding *d, size_t stage, const char *text, size_t bytes) {
  const crn_decoder *step = &d->tokenizer->decoders[stage];
  crn_decoder_state *s = &d->states[stage];
  char mark[4];
  size_t n = (size_t)crn_utf8_encode(step->code, mark);
  while (!s->done && bytes) {
    s->done = s->count >= step->start || bytes < n || memcmp(text, mark, n) != 0;
    if (s->done) break;
    text += n;
    bytes -= n;
    s->count++;
  }
  // Marks at the end may turn out to be the ones to strip, so as many as that are held.
  CRN_TRY(crn_str_append(&s->held, text, bytes));
  size_t keep = 0;
  for (size_t marks = 0; marks < step->stop && s->held.size - keep >= n; marks++) {
    if (memcmp(s->held.data + s->held.size - keep - n, mark, n) != 0) break;
    keep += n;
  }
  size_t ready = s->held.size - keep;
  CRN_TRY(feed(d, stage + 1, s->held.data, ready));
  memmove(s->held.data, s->held.data + ready, keep);
  s->held.size = keep;
  return CAIRN_OK;
}

// A plain string may begin in one part and end in the next: the longest end that can be such a beginning is held.
static cairn_status part_replace(crn_decoding *d, size_t stage, const char *text, size_t bytes) {
  const crn_decoder *step = &d->tokenizer->decoders[stage];
  crn_str *held = &d->states[stage].held;
  const crn_view *from = &step->literal;
  CRN_TRY(crn_str_append(held, text, bytes));
  size_t done = 0, at = 0;
  while (at + from->bytes <= held->size) {
    if (memcmp(held->data + at, from->text, from->bytes)) {
      at++;
      continue;
    }
    CRN_TRY(feed(d, stage + 1, held->data + done, at - done));
    CRN_TRY(feed(d, stage + 1, step->content.text, step->content.bytes));
    done = at += from->bytes;
  }
  while (at < held->size && memcmp(held->data + at, from->text, held->size - at)) at++;
  CRN_TRY(feed(d, stage + 1, held->data + done, at - done));
  memmove(held->data, held->data + at, held->size - at);
  held->size -= at;
  return CAIRN_OK;
}

static cairn_status feed_part(crn_decoding *d, size_t stage, const char *text, size_t bytes) {
  const crn_decoder *step = &d->tokenizer->decoders[stage];
  if (step->kind == CRN_DECODER_FUSE) return feed(d, stage + 1, text, bytes);
  if (step->kind == CRN_DECODER_STRIP) return part_strip(d, stage, text, bytes);
  if (step->kind == CRN_DECODER_REPLACE && step->literal.bytes) return part_replace(d, stage, text, bytes);
  return crn_str_append(&d->states[stage].held, text, bytes);
}

// --- the chain -------------------------------------------------------------------------------------------------------------

static cairn_status feed_token(crn_decoding *d, size_t stage, const char *text, size_t bytes) {
  switch (d->tokenizer->decoders[stage].kind) {
    case CRN_DECODER_BYTE_LEVEL:
      return feed_byte_level(d, stage, text, bytes);
    case CRN_DECODER_BYTE_FALLBACK:
      return feed_byte_fallback(d, stage, text, bytes);
    case CRN_DECODER_STRIP:
      return strip_whole(d, stage, text, bytes);
    case CRN_DECODER_REPLACE:
      return feed_replace(d, stage, text, bytes);
    case CRN_DECODER_METASPACE:
      return feed_metaspace(d, stage, text, bytes);
    case CRN_DECODER_WORDPIECE:
      return feed_wordpiece(d, stage, text, bytes);
    case CRN_DECODER_CTC:
      return feed_ctc(d, stage, text, bytes);
    case CRN_DECODER_BPE:
      return feed_bpe(d, stage, text, bytes);
    case CRN_DECODER_SENTENCEPIECE:
      return crn_decoding_feed_sentencepiece(d, stage, text, bytes);
    default:
      return feed(d, stage + 1, text, bytes);
  }
}

static cairn_status feed(crn_decoding *d, size_t stage, const char *text, size_t bytes) {
  if (stage == d->tokenizer->n_decoders) return crn_str_append(&d->out, text, bytes);
  return d->tokenizer->decoders[stage].fused ? feed_part(d, stage, text, bytes) : feed_token(d, stage, text, bytes);
}

cairn_status crn_decoding_feed(crn_decoding *d, size_t stage, const char *text, size_t bytes) { return feed(d, stage, text, bytes); }

// The end of the input has reached this stage: what it holds goes on.
static cairn_status finish_stage(crn_decoding *d, size_t stage) {
  const crn_decoder *step = &d->tokenizer->decoders[stage];
  crn_decoder_state *s = &d->states[stage];
  if (step->fused) {
    if (step->kind == CRN_DECODER_FUSE || step->kind == CRN_DECODER_STRIP) return CAIRN_OK;
    if (step->kind == CRN_DECODER_REPLACE && step->literal.bytes) return feed(d, stage + 1, s->held.data, s->held.size);
    // The parts are complete now: the stage gets them as the one token they are.
    crn_str whole = s->held;
    crn_str_initialize(&s->held, d->allocator);
    cairn_status status = feed_token(d, stage, whole.data, whole.size);
    crn_str_deinitialize(&whole);
    CRN_TRY(status);
  }
  switch (step->kind) {
    case CRN_DECODER_BYTE_LEVEL:
      return flush_utf8(d, stage, true);
    case CRN_DECODER_BYTE_FALLBACK:
      return flush_bytes(d, stage);
    case CRN_DECODER_BPE:
      return s->started ? pass_bpe(d, stage, true) : CAIRN_OK;
    case CRN_DECODER_SENTENCEPIECE:
      return crn_decoding_finish_sentencepiece(d, stage);
    default:
      return CAIRN_OK;
  }
}

cairn_status crn_decoding_push(crn_decoding *d, const char *token, size_t bytes) {
  // Without a decoder the tokens are set apart by spaces.
  if (!d->tokenizer->has_decoder && d->started) CRN_TRY(crn_str_putc(&d->out, ' '));
  d->started = true;
  return feed(d, 0, token, bytes);
}

cairn_status crn_decoding_finish(crn_decoding *d) {
  cairn_status status = CAIRN_OK;
  for (size_t i = 0; i < d->tokenizer->n_decoders; i++) {
    if (status == CAIRN_OK) status = finish_stage(d, i);
    crn_decoder_state *s = &d->states[i];
    crn_str_clear(&s->held);
    s->count = 0;
    s->started = s->done = false;
  }
  d->started = false;
  return status;
}
