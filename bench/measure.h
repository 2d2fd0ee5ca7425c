/// What the benchmarks of models share: the clock, and the end where something fails.
#ifndef CAIRN_BENCH_MEASURE_H
#define CAIRN_BENCH_MEASURE_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cairn/cairn.h"

static inline double bench_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/// Says what failed, in the name of the program, and ends it.
static inline void bench_check(const char *program, cairn_status status) {
  if (status == CAIRN_OK) return;
  char text[1024];
  cairn_last_error_text(text, sizeof text);
  fprintf(stderr, "%s: %s\n", program, text);
  exit(1);
}

#endif
