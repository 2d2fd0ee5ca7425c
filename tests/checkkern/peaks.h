/// What one core of this machine can do at most: measured in registers, or on memory read once.
#ifndef CHECKKERN_PEAKS_H
#define CHECKKERN_PEAKS_H

#include <stddef.h>

#include "backend/cpu/kernels/linear/linear.h"

/// Seconds on the monotonic clock.
double now(void);

/// Multiply-adds per second of the instruction a kernel is made of, 0 when none is known for it.
double peak_of(const crn_linear_kernel *kernel);

/// Bytes per second of reading `bytes` bytes at `memory` (64-byte aligned) in order.
double read_speed(const void *memory, size_t bytes);

#endif
