#include "base/huge_map.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/region.h"

// Of the map with the addresses behind its end up to that of a huge page.
static size_t whole_bytes(const crn_huge_map *map) { return (map->bytes + CRN_HUGE_PAGE - 1) / CRN_HUGE_PAGE * CRN_HUGE_PAGE; }

#if defined(__linux__) && defined(MADV_POPULATE_READ) && defined(MREMAP_DONTUNMAP)
#include <sys/ioctl.h>

// What the system is asked to find in a range of pages (PAGEMAP_SCAN); headers are often older than the system.
typedef struct scan_request {
  uint64_t size, flags, start, end, walked_to, found, n_found, max_pages, inverted, mask, any_of, returned;
} scan_request;

typedef struct scan_range {
  uint64_t start, end, kinds;
} scan_range;

enum { HUGE_KIND = 1 << 6, RANGES = 64 };
#define SCAN _IOWR('f', 16, scan_request)

// How many bytes of the range lie in huge pages; 0 when the system does not tell.
static size_t huge_bytes(const void *data, size_t bytes) {
  scan_range ranges[RANGES];
  size_t sum = 0;
  int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  for (uint64_t at = (uintptr_t)data, end = at + bytes; at < end;) {
    scan_request r = {.size = sizeof r, .start = at, .end = end, .found = (uintptr_t)ranges, .n_found = RANGES, .mask = HUGE_KIND};
    r.returned = HUGE_KIND;
    const int n = ioctl(fd, SCAN, &r);
    if (n < 0 || r.walked_to <= at) break;
    for (int i = 0; i < n; i++) sum += ranges[i].end - ranges[i].start;
    at = r.walked_to;
  }
  close(fd);
  return sum;
}

// Addresses that begin with a huge page: a piece of the file that lies in one is seen through one entry of the tables then.
static void *take_addresses(size_t bytes) {
  char *p = mmap(NULL, bytes + CRN_HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return NULL;
  const size_t before = (CRN_HUGE_PAGE - (uintptr_t)p % CRN_HUGE_PAGE) % CRN_HUGE_PAGE;
  if (before) munmap(p, before);
  munmap(p + before + bytes, CRN_HUGE_PAGE - before);
  return p + before;
}

bool crn_huge_map_open(int fd, size_t offset, size_t bytes, crn_huge_map *map) {
  size_t rounded;
  *map = (crn_huge_map){0};
  if (bytes < CRN_HUGE_PAGE || !crn_align_size(bytes, CRN_HUGE_PAGE, &rounded) || rounded > SIZE_MAX - CRN_HUGE_PAGE) return false;
  void *p = take_addresses(rounded);
  if (!p) return false;
  if (mmap(p, bytes, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, (off_t)offset) == MAP_FAILED) {
    munmap(p, rounded);
    return false;
  }
  // What is not in memory yet is then read in such pieces.
  madvise(p, bytes, MADV_HUGEPAGE);
  *map = (crn_huge_map){p, bytes};
  // The end of a file fills no huge page. A file may be shorter than it was a moment ago: the system says so when it is read.
  const size_t whole = bytes / CRN_HUGE_PAGE * CRN_HUGE_PAGE;
  if (madvise(p, bytes, MADV_POPULATE_READ) == 0 && huge_bytes(p, whole) >= whole - whole / 8) return true;
  crn_huge_map_close(map);
  return false;
}

bool crn_huge_copy_begin(const crn_huge_map *map, crn_huge_copy *copy) {
  *copy = (crn_huge_copy){.bytes = whole_bytes(map)};
  void *p = take_addresses(copy->bytes);
  if (!p) return false;
  copy->pages = p;
  if (mprotect(p, copy->bytes, PROT_READ | PROT_WRITE)) {
    crn_huge_copy_end(copy);
    return false;
  }
  madvise(p, copy->bytes, MADV_HUGEPAGE);
  return true;
}

bool crn_huge_copy_put(const crn_huge_copy *copy, const crn_huge_map *map, size_t at) {
  void *to = (void *)(map->data + at);
  // The addresses stay with the copy: in a hole somebody else's memory might be found when the copy ends.
  return mremap(copy->pages + at, CRN_HUGE_PAGE, CRN_HUGE_PAGE, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to) == to;
}
#else
bool crn_huge_copy_begin(const crn_huge_map *map, crn_huge_copy *copy) {
  (void)map;
  *copy = (crn_huge_copy){0};
  return false;
}

bool crn_huge_copy_put(const crn_huge_copy *copy, const crn_huge_map *map, size_t at) {
  (void)copy, (void)map, (void)at;
  return false;
}

bool crn_huge_map_open(int fd, size_t offset, size_t bytes, crn_huge_map *map) {
  (void)fd, (void)offset, (void)bytes;
  *map = (crn_huge_map){0};
  return false;
}
#endif

void crn_huge_map_close(crn_huge_map *map) {
  if (map->data) munmap((void *)map->data, whole_bytes(map));
  *map = (crn_huge_map){0};
}

void crn_huge_copy_end(crn_huge_copy *copy) {
  if (copy->pages) munmap(copy->pages, copy->bytes);
  *copy = (crn_huge_copy){0};
}
