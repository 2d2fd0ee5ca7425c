// Feeds the fuzz target of random programs:  random_programs COUNT [FIRST]
// A failure aborts; the last line on stderr has the number of the program, which can be given as FIRST.
#include <stdio.h>
#include <stdlib.h>

#include "program_fuzz_build.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv) {
  long count = argc > 1 ? atol(argv[1]) : 1000, first = argc > 2 ? atol(argv[2]) : 0;
  uint8_t bytes[512];
  setvbuf(stderr, NULL, _IOLBF, 4096);
  for (long i = first; i < first + count; i++) {
    uint64_t state = (uint64_t)i * 0x9E3779B97F4A7C15u + 1;
    for (size_t k = 0; k < sizeof bytes; k++) {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      bytes[k] = (uint8_t)(state >> 32);
    }
    fprintf(stderr, i % 100 == 0 || count < 100 ? "from program %ld on\n" : "", i);
    LLVMFuzzerTestOneInput(bytes, sizeof bytes);
  }
  const fuzz_counts *n = &g_fuzz_counts;
  printf("%ld programs: %ld built, %ld ran, %ld with composites; %ld surely broken, %ld broken somehow and refused\n", n->programs,
         n->built, n->ran, n->composites, n->broken, n->refused);
  // Else the test shows nothing.
  bool shows = n->built > count / 2 && n->ran > count / 4 && (count < 1000 || (n->composites > 20 && n->broken > 50 && n->refused > 50));
  if (!shows) printf("FAILED  too few programs get through\n");
  return !shows;
}
