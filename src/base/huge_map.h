/// Maps of files that the system keeps in huge pages: as fast to read as memory of one's own, without the time it takes to get, clear
/// and fill that.
#ifndef CRN_BASE_HUGE_MAP_H
#define CRN_BASE_HUGE_MAP_H

#include <stdbool.h>
#include <stddef.h>

/// Zeroed = nothing is mapped.
typedef struct crn_huge_map {
  const unsigned char *data;
  size_t bytes;
} crn_huge_map;

/// Maps `bytes` bytes of an open file from `offset` on, a multiple of CRN_HUGE_PAGE, for reading. False when the system has no huge pages
/// for most of them: translating the addresses of small ones would cost more than reading the file into other memory, and that is what
/// the caller should do. A file is in huge pages when it was written in pieces of their size, on systems that know such (Linux 6.16 with
/// ext4, for one).
bool crn_huge_map_open(int fd, size_t offset, size_t bytes, crn_huge_map *out_map);
/// Nothing happens when nothing is mapped.
void crn_huge_map_close(crn_huge_map *map);

/// Memory of the program's own that takes the place of a map, piece by piece: the bytes at an address stay what they are, and whoever is
/// reading them does not notice.
typedef struct crn_huge_copy {
  unsigned char *pages;  ///< room for all of the map; only what is written takes memory
  size_t bytes;
} crn_huge_copy;

/// False when there are no addresses to be had.
bool crn_huge_copy_begin(const crn_huge_map *map, crn_huge_copy *out_copy);
/// Puts one huge page of the copy, which begins `at` bytes from its start (a multiple of CRN_HUGE_PAGE), into the place of the map's. It is
/// gone from the copy then. Thread: safe for different pages. False when the system refuses, with nothing changed.
bool crn_huge_copy_put(const crn_huge_copy *copy, const crn_huge_map *map, size_t at);
void crn_huge_copy_end(crn_huge_copy *copy);

#endif
