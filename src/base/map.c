#include "base/map.h"

#include <string.h>

void crn_map_initialize(crn_map *map, const cairn_allocator *allocator) {
  *map = (crn_map){0};
  crn_arena_initialize(&map->keys, allocator);
}

void crn_map_deinitialize(crn_map *map) {
  crn_free(map->keys.allocator, map->slots, map->n_slots * sizeof *map->slots);
  map->slots = NULL;
  map->n_slots = map->size = 0;
  crn_arena_deinitialize(&map->keys);
}

// FNV-1a folded to 32 bits: keys are short names and vocabulary pieces.
static uint32_t hash_bytes(const char *p, size_t n) {
  uint64_t h = 1469598103934665603u;
  for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)p[i]) * 1099511628211u;
  return (uint32_t)(h ^ h >> 32);
}

static crn_map_slot *find(const crn_map *map, const char *key, size_t n, uint32_t hash) {
  size_t mask = map->n_slots - 1;
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    crn_map_slot *s = &map->slots[i];
    if (!s->key || (s->hash == hash && s->key_bytes == n && !memcmp(s->key, key, n))) return s;
  }
}

// At three of four slots a search still looks at a few neighbours only, and maps of many keys take half the memory they would at two.
static size_t most_keys(size_t n_slots) { return n_slots / 4 * 3; }

static cairn_status rehash(crn_map *map, size_t n) {
  crn_map old = *map;
  crn_map_slot *slots;
  CRN_TRY(crn_alloc_array(map->keys.allocator, n, sizeof *slots, &slots));
  map->slots = slots;
  map->n_slots = n;
  for (size_t i = 0; i < old.n_slots; i++) {
    crn_map_slot *s = &old.slots[i];
    if (s->key) *find(map, s->key, s->key_bytes, s->hash) = *s;
  }
  crn_free(map->keys.allocator, old.slots, old.n_slots * sizeof *old.slots);
  return CAIRN_OK;
}

cairn_status crn_map_reserve(crn_map *map, size_t n) {
  size_t wanted = map->n_slots ? map->n_slots : 16;
  if (n > SIZE_MAX / 8 - map->size) return CRN_FAIL(OUT_OF_RANGE, "%zu more keys are too many", n);
  while (most_keys(wanted) < map->size + n) wanted *= 2;
  return wanted > map->n_slots ? rehash(map, wanted) : CAIRN_OK;
}

// The slot of a key, made with `value` when it is absent.
static cairn_status claim(crn_map *map, const char *key, size_t key_bytes, uint64_t value, crn_map_slot **out_slot) {
  if (key_bytes > UINT32_MAX) return CRN_FAIL(INVALID_ARGUMENT, "key of %zu bytes is too long", key_bytes);
  if (map->size + 1 > most_keys(map->n_slots)) CRN_TRY(rehash(map, map->n_slots ? map->n_slots * 2 : 16));
  uint32_t hash = hash_bytes(key, key_bytes);
  crn_map_slot *s = find(map, key, key_bytes, hash);
  if (!s->key) {
    const char *copy = key;
    if (!map->borrows_keys) CRN_TRY(crn_arena_strndup(&map->keys, key, key_bytes, &copy));
    *s = (crn_map_slot){copy, (uint32_t)key_bytes, hash, value};
    map->size++;
  }
  *out_slot = s;
  return CAIRN_OK;
}

cairn_status crn_map_claim(crn_map *map, const char *key, size_t key_bytes, uint64_t value, uint64_t *out_value) {
  crn_map_slot *slot;
  CRN_TRY(claim(map, key, key_bytes, value, &slot));
  *out_value = slot->value;
  return CAIRN_OK;
}

cairn_status crn_map_set(crn_map *map, const char *key, size_t key_bytes, uint64_t value) {
  crn_map_slot *slot;
  CRN_TRY(claim(map, key, key_bytes, value, &slot));
  slot->value = value;
  return CAIRN_OK;
}

bool crn_map_get(const crn_map *map, const char *key, size_t key_bytes, uint64_t *out_value) {
  if (!map->n_slots) return false;
  crn_map_slot *s = find(map, key, key_bytes, hash_bytes(key, key_bytes));
  if (!s->key) return false;
  if (out_value) *out_value = s->value;
  return true;
}
