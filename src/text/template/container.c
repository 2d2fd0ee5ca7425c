/// Lists, tuples and dicts.
#include <string.h>

#include "text/template/render.h"

cairn_status crn_tmpl_items_push(tmpl_render *r, tmpl_items *items, tmpl_value v) {
  if (items->used == items->capacity) {
    size_t capacity = items->capacity + items->capacity / 2 + 8;
    tmpl_value *base;
    CRN_TRY(crn_tmpl_alloc(r, capacity, sizeof *base, &base));
    if (items->used) memcpy(base, items->base, items->used * sizeof *base);
    items->base = base;
    items->capacity = capacity;
  }
  items->base[items->used++] = v;
  return CAIRN_OK;
}

static cairn_status make_list(tmpl_render *r, tmpl_list list, tmpl_type type, tmpl_value *out) {
  tmpl_list *made;
  CRN_TRY(crn_tmpl_alloc(r, 1, sizeof *made, &made));
  *made = list;
  *out = (tmpl_value){.type = type, .list = made};
  return CAIRN_OK;
}

cairn_status crn_tmpl_list_finish(tmpl_render *r, tmpl_items *items, tmpl_type type, tmpl_value *out) {
  return make_list(r, (tmpl_list){.items = items->base, .size = items->used}, type, out);
}

cairn_status crn_tmpl_list_copy(tmpl_render *r, const tmpl_value *values, size_t n, tmpl_type type, tmpl_value *out) {
  tmpl_value *copy;
  CRN_TRY(crn_tmpl_alloc(r, n, sizeof *copy, &copy));
  if (n) memcpy(copy, values, n * sizeof *copy);
  return make_list(r, (tmpl_list){.items = copy, .size = n}, type, out);
}

cairn_status crn_tmpl_list_concat(tmpl_render *r, tmpl_value a, tmpl_value b, tmpl_value *out) {
  const tmpl_list *left = a.list, *right = b.list;
  tmpl_items *buffer = left->buffer;
  size_t n_right = right->size;
  if (!left->size || !n_right) {
    // Nothing is added; but the result is a list of its own.
    const tmpl_list *whole = left->size ? left : right;
    return make_list(r, (tmpl_list){.items = whole->items, .size = whole->size, .buffer = whole->buffer}, a.type, out);
  }
  // As for strings: lists that share the buffer end before what is added.
  if (!buffer || left->items + left->size != buffer->base + buffer->used) {
    CRN_TRY(crn_tmpl_alloc(r, 1, sizeof *buffer, &buffer));
    for (size_t i = 0; i < left->size; i++) CRN_TRY(crn_tmpl_items_push(r, buffer, left->items[i]));
  }
  CRN_TRY(crn_tmpl_work(r, n_right * sizeof(tmpl_value)));
  for (size_t i = 0; i < n_right; i++) CRN_TRY(crn_tmpl_items_push(r, buffer, right->items[i]));
  size_t size = left->size + n_right;
  return make_list(r, (tmpl_list){.items = buffer->base + (buffer->used - size), .size = size, .buffer = buffer}, a.type, out);
}

cairn_status crn_tmpl_pair_tuple(tmpl_render *r, tmpl_value a, tmpl_value b, tmpl_value *out) {
  tmpl_value pair[] = {a, b};
  return crn_tmpl_list_copy(r, pair, 2, TMPL_TUPLE, out);
}

// --- dicts --------------------------------------------------------------------------------------------------------------------

enum { SMALL_DICT = 8 };

static uint64_t mix(uint64_t h) {
  h ^= h >> 32;
  h *= 0x9e3779b97f4a7c15u;
  return h ^ h >> 29;
}

static uint64_t hash_bytes(const char *p, size_t n) {
  uint64_t h = 0x2545f4914f6cdd1du ^ n;
  for (; n >= 8; p += 8, n -= 8) {
    uint64_t word;
    memcpy(&word, p, 8);
    h = mix(h ^ word);
  }
  uint64_t word = 0;
  memcpy(&word, p, n);
  return mix(h ^ word);
}

static uint64_t hash_double(double d) {
  // Numbers that are equal must hash alike, whatever their type.
  if (d >= -9.2e18 && d <= 9.2e18 && d == (double)(int64_t)d) return mix((uint64_t)(int64_t)d);
  uint64_t bits;
  memcpy(&bits, &d, sizeof bits);
  return mix(bits);
}

static bool hash_value(tmpl_value v, int depth, uint64_t *out) {
  *out = (uint64_t)v.type;
  switch (v.type) {
    case TMPL_LIST:
    case TMPL_DICT:
    case TMPL_MISSING:
      return false;
    case TMPL_VIEW:
      // Keys and items compare as sets do, values only with themselves.
      *out = mix((uint64_t)(uintptr_t)v.view);
      return v.view->kind == TMPL_VIEW_VALUES;
    case TMPL_UNDEFINED:
    case TMPL_NONE:
      return true;
    case TMPL_BOOL:
    case TMPL_INT:
      *out = mix((uint64_t)tmpl_as_int(v));
      return true;
    case TMPL_FLOAT:
      *out = hash_double(v.d);
      return true;
    case TMPL_STRING:
      *out = hash_bytes(v.s->data, v.s->size);
      return true;
    case TMPL_RANGE:
      *out = mix(v.range->size ^ (uint64_t)(v.range->size ? v.range->start : 0));
      return true;
    case TMPL_TUPLE:
      if (depth > 100) return false;
      for (size_t i = 0; i < v.list->size; i++) {
        uint64_t h;
        if (!hash_value(v.list->items[i], depth + 1, &h)) return false;
        *out = mix(*out ^ h);
      }
      return true;
    default:
      *out = mix((uint64_t)(uintptr_t)v.block);
      return true;
  }
}

bool crn_tmpl_hash(tmpl_value v, uint64_t *out_hash) { return hash_value(v, 0, out_hash); }

// Equality of two values that can both be hashed; it cannot fail.
static bool same_key(tmpl_value a, tmpl_value b) {
  if (a.type == TMPL_STRING && b.type == TMPL_STRING) return crn_tmpl_str_equal(a.s, b.s);
  if (tmpl_is_integral(a) && tmpl_is_integral(b)) return tmpl_as_int(a) == tmpl_as_int(b);
  if (tmpl_is_number(a) && tmpl_is_number(b)) return tmpl_as_double(a) == tmpl_as_double(b);
  if (a.type != b.type) return false;
  if (a.type == TMPL_UNDEFINED || a.type == TMPL_NONE) return true;
  if (a.type == TMPL_TUPLE) {
    if (a.list->size != b.list->size) return false;
    for (size_t i = 0; i < a.list->size; i++) {
      if (!same_key(a.list->items[i], b.list->items[i])) return false;
    }
    return true;
  }
  if (a.type == TMPL_RANGE) {
    const tmpl_range *x = a.range, *y = b.range;
    return x->size == y->size && (!x->size || (x->start == y->start && (x->size == 1 || x->step == y->step)));
  }
  return crn_tmpl_same(a, b);
}

static const tmpl_pair *find_pair(const tmpl_dict *d, tmpl_value key, uint64_t hash) {
  if (!d->index) {
    for (size_t i = 0; i < d->size; i++) {
      if (d->items[i].hash == hash && same_key(d->items[i].key, key)) return &d->items[i];
    }
    return NULL;
  }
  for (size_t i = hash & (d->n_index - 1);; i = (i + 1) & (d->n_index - 1)) {
    if (!d->index[i]) return NULL;
    const tmpl_pair *pair = &d->items[d->index[i] - 1];
    if (pair->hash == hash && same_key(pair->key, key)) return pair;
  }
}

const tmpl_pair *crn_tmpl_dict_find(const tmpl_dict *d, tmpl_value key) {
  uint64_t hash;
  return crn_tmpl_hash(key, &hash) ? find_pair(d, key, hash) : NULL;
}

const tmpl_pair *crn_tmpl_dict_find_str(const tmpl_dict *d, const tmpl_str *key) { return crn_tmpl_dict_find(d, tmpl_string(key)); }

cairn_status crn_tmpl_dict_make(tmpl_render *r, tmpl_dict **out) { return crn_tmpl_alloc(r, 1, sizeof **out, out); }

static void index_pair(tmpl_dict *d, size_t position) {
  size_t i = d->items[position].hash & (d->n_index - 1);
  while (d->index[i]) i = (i + 1) & (d->n_index - 1);
  d->index[i] = (uint32_t)(position + 1);
}

static cairn_status grow_dict(tmpl_render *r, tmpl_dict *d) {
  size_t capacity = d->capacity ? d->capacity * 2 : 4;
  tmpl_pair *items;
  if (capacity > UINT32_MAX / 4) return crn_tmpl_limit(r, "a dict is too large");
  CRN_TRY(crn_tmpl_alloc(r, capacity, sizeof *items, &items));
  if (d->size) memcpy(items, d->items, d->size * sizeof *items);
  d->items = items;
  d->capacity = capacity;
  if (capacity <= SMALL_DICT) return CAIRN_OK;
  d->n_index = capacity * 2;
  CRN_TRY(crn_tmpl_alloc(r, d->n_index, sizeof *d->index, &d->index));
  for (size_t i = 0; i < d->size; i++) index_pair(d, i);
  return CAIRN_OK;
}

cairn_status crn_tmpl_dict_set(tmpl_render *r, tmpl_dict *d, tmpl_value key, tmpl_value value) {
  uint64_t hash;
  if (!crn_tmpl_hash(key, &hash)) return crn_tmpl_fail(r, "unhashable type: '%s'", crn_tmpl_type_name(key));
  CRN_TRY(crn_tmpl_steps(r, 1));
  tmpl_pair *known = (tmpl_pair *)find_pair(d, key, hash);
  if (known) {
    known->value = value;
    return CAIRN_OK;
  }
  if (d->size == d->capacity) CRN_TRY(grow_dict(r, d));
  d->items[d->size] = (tmpl_pair){.key = key, .value = value, .hash = hash};
  if (d->index) index_pair(d, d->size);
  d->size++;
  return CAIRN_OK;
}
