/// A hash map from byte strings to 64-bit values. Keys are copied unless the map borrows them. Insertion only. Thread: reads may run at
/// once.
#ifndef CRN_BASE_MAP_H
#define CRN_BASE_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

typedef struct crn_map_slot {
  const char *key;  ///< NULL = free; lives in the map's arena
  uint32_t key_bytes, hash;
  uint64_t value;
} crn_map_slot;

typedef struct crn_map {
  crn_arena keys;
  crn_map_slot *slots;
  size_t n_slots, size;
  bool borrows_keys;  ///< set behind crn_map_initialize: keys are kept where they are, and outlive the map
} crn_map;

void crn_map_initialize(crn_map *map, const cairn_allocator *allocator);
void crn_map_deinitialize(crn_map *map);
/// Makes room for `n` more keys at once. Errors: OUT_OF_MEMORY, OUT_OF_RANGE.
cairn_status crn_map_reserve(crn_map *map, size_t n);
/// Adds or replaces. Errors: OUT_OF_MEMORY.
cairn_status crn_map_set(crn_map *map, const char *key, size_t key_bytes, uint64_t value);
/// The value of a key, which becomes `value` when it is absent. Errors: OUT_OF_MEMORY.
cairn_status crn_map_claim(crn_map *map, const char *key, size_t key_bytes, uint64_t value, uint64_t *out_value);
/// Returns false when the key is absent; `out_value` may be NULL.
bool crn_map_get(const crn_map *map, const char *key, size_t key_bytes, uint64_t *out_value);

#endif
