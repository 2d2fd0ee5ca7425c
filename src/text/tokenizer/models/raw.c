// Byte-level BPE on the bytes of the text itself: the way nearly all text takes. The alphabet that stands for the bytes is
// left out, words are cut and encoded one by one, and words met before are only looked up.
#include "text/tokenizer/models/raw.h"

#include <string.h>

#include "text/tokenizer/models/bpe.h"
#include "text/tokenizer/models/words.h"

enum { SHORT_WORD = 48 };  ///< up to here the best pair is found by looking at all of them

void crn_raw_plan(cairn_tokenizer *t, size_t n_steps, const crn_regex *regex) {
  crn_model *m = &t->model;
  if (m->kind != CRN_MODEL_BPE || m->prefix.bytes || m->suffix.bytes) return;
  for (int i = 0; i < 256; i++) {
    char code[4];
    int n = crn_utf8_encode(crn_byte_char((unsigned char)i), code);
    m->raw_ids[i] = crn_vocab_id(&t->vocab, code, (size_t)n);
  }
  // With two texts for one id a candidate that is out of date could look as if it were not.
  m->short_words = true;
  for (size_t i = 0; i < t->vocab.n_entries; i++) {
    const crn_vocab_entry *e = &t->vocab.entries[i];
    if (t->vocab.tokens[e->id].text != e->text) m->short_words = false;
  }
  t->raw = true;
  t->n_raw_steps = n_steps;
  t->raw_regex = regex;
}

static inline cairn_status push_ids(crn_run *run, const int32_t *ids, size_t n) {
  crn_i32_vec *out = run->ids;
  if (out->capacity - out->size < n) CRN_TRY(crn_vec_reserve(run->allocator, out, n));
  for (size_t i = 0; i < n; i++) out->items[out->size + i] = ids[i];
  out->size += n;
  return CAIRN_OK;
}

static inline void look_up(const crn_model *m, const int32_t *ids, size_t i, uint32_t *ranks, int32_t *joined) {
  const crn_pair_slot *p = crn_bpe_find_pair(m, ids[i], ids[i + 1]);
  ranks[i] = p->id < 0 ? UINT32_MAX : p->rank;
  joined[i] = p->id;
}

/// Joins in place and returns how many ids are left. Of pairs that are equally good the leftmost goes first.
static size_t merge_short(const crn_model *m, int32_t *ids, size_t n) {
  uint32_t ranks[SHORT_WORD];
  int32_t joined[SHORT_WORD];
  for (size_t i = 0; i + 1 < n; i++) look_up(m, ids, i, ranks, joined);
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; i++) {
      if (ranks[i] < ranks[best]) best = i;
    }
    if (ranks[best] == UINT32_MAX) break;
    ids[best] = joined[best];
    n--;
    memmove(ids + best + 1, ids + best + 2, (n - best - 1) * sizeof *ids);
    if (best + 1 < n) {
      memmove(ranks + best + 1, ranks + best + 2, (n - best - 2) * sizeof *ranks);
      memmove(joined + best + 1, joined + best + 2, (n - best - 2) * sizeof *joined);
      look_up(m, ids, best, ranks, joined);
    }
    if (best) look_up(m, ids, best - 1, ranks, joined);
  }
  return n;
}

/// Writes the word in the byte-level alphabet into run->word.
static cairn_status map_word(crn_run *run, const char *text, size_t bytes) {
  crn_str_clear(&run->word);
  CRN_TRY(crn_str_reserve(&run->word, 2 * bytes));
  for (size_t i = 0; i < bytes; i++) {
    run->word.size += (size_t)crn_utf8_encode(crn_byte_char((unsigned char)text[i]), run->word.data + run->word.size);
  }
  return CAIRN_OK;
}

static cairn_status encode_new(crn_run *run, const char *text, size_t bytes) {
  const crn_model *m = &run->tokenizer->model;
  bool missing = false;
  for (size_t i = 0; i < bytes; i++) missing |= m->raw_ids[(unsigned char)text[i]] < 0;
  // A token of the vocabulary is itself whatever the merges say, and a byte without a token needs more thought.
  if (missing || (m->ignore_merges && bytes <= (size_t)run->tokenizer->vocab.max_bytes)) {
    CRN_TRY(map_word(run, text, bytes));
    if (missing) return crn_bpe_tokenize(run, run->word.data, run->word.size);
    int32_t id = crn_vocab_id(&run->tokenizer->vocab, run->word.data, run->word.size);
    if (id >= 0) return push_ids(run, &id, 1);
  }
  if (bytes > SHORT_WORD || !m->short_words) return crn_bpe_encode_bytes(run, text, bytes);
  int32_t ids[SHORT_WORD];
  for (size_t i = 0; i < bytes; i++) ids[i] = m->raw_ids[(unsigned char)text[i]];
  return push_ids(run, ids, merge_short(m, ids, bytes));
}

// --- words in rows ------------------------------------------------------------------------------------------------------

/// Words that are cut but not encoded yet. While some are cut, the memory of the others is on its way.
typedef struct row {
  struct {
    const char *text;
    size_t bytes, hash;
    crn_word_key key;
  } words[32];
  size_t n;
} row;

static cairn_status flush(crn_run *run, row *r) {
  for (size_t i = 0; i < r->n; i++) {
    const char *text = r->words[i].text;
    size_t bytes = r->words[i].bytes, hash = r->words[i].hash, first = run->ids->size;
    bool keyed = bytes <= CRN_WORD_MOST_BYTES;
    const crn_word *w = keyed ? crn_words_find(run->cache, &r->words[i].key, hash) : NULL;
    if (w) {
      CRN_TRY(push_ids(run, w->ids, w->n_ids));
      continue;
    }
    CRN_TRY(encode_new(run, text, bytes));
    if (keyed) CRN_TRY(crn_words_add(run, &r->words[i].key, hash, run->ids->items + first, run->ids->size - first));
  }
  r->n = 0;
  return CAIRN_OK;
}

static inline cairn_status put_word(crn_run *run, row *r, const char *text, size_t bytes) {
  size_t i = r->n++;
  r->words[i].text = text;
  r->words[i].bytes = bytes;
  if (bytes <= CRN_WORD_MOST_BYTES) {
    r->words[i].key = crn_word_key_make(text, bytes);
    r->words[i].hash = crn_word_hash(&r->words[i].key);
    crn_words_prefetch(run->cache, r->words[i].hash);
  }
  return r->n == sizeof r->words / sizeof *r->words ? flush(run, r) : CAIRN_OK;
}

static cairn_status cut_piece(crn_run *run, row *r, const char *text, size_t bytes) {
  crn_regex_walk walk;
  size_t last = 0, begin, end;
  bool found;
  if (!bytes) return CAIRN_OK;
  if (!run->tokenizer->raw_regex) return put_word(run, r, text, bytes);
  crn_regex_walk_begin(&walk, run->tokenizer->raw_regex, run->room, text, bytes);
  for (;;) {
    CRN_TRY(crn_regex_walk_next(&walk, &found, &begin, &end));
    if (!found) break;
    if (begin > last) CRN_TRY(put_word(run, r, text + last, begin - last));
    if (end > begin) CRN_TRY(put_word(run, r, text + begin, end - begin));
    last = end;
  }
  return last < bytes ? put_word(run, r, text + last, bytes - last) : CAIRN_OK;
}

cairn_status crn_raw_encode(crn_run *run) {
  row r;
  r.n = 0;
  // Words are compared by whole vectors, which may reach beyond the end.
  CRN_TRY(crn_str_reserve(&run->text.bytes, CRN_WORD_SLACK));
  CRN_TRY(crn_vec_reserve(run->allocator, run->ids, run->text.bytes.size / 3));
  for (size_t i = 0; i < run->pieces.size; i++) {
    crn_piece p = run->pieces.items[i];
    CRN_TRY(cut_piece(run, &r, run->text.bytes.data + p.begin, p.end - p.begin));
  }
  return flush(run, &r);
}
