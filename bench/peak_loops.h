/// Loops of one instruction over twelve independent sums, for measuring how fast it is at most. The operands are zeros, whose speed is that
/// of any numbers. The including file defines TURNS, how often the loop goes round.
#ifndef CRN_BENCH_PEAK_LOOPS_H
#define CRN_BENCH_PEAK_LOOPS_H

#include <stdint.h>

#define TWELVE(op) op(0) op(1) op(2) op(3) op(4) op(5) op(6) op(7) op(8) op(9) op(10) op(11)
#define CLOBBERS \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "memory"
#define LOOP(name, clear, op)                                                                                                    \
  static void name(void) {                                                                                                       \
    int64_t n = TURNS;                                                                                                           \
    __asm__ volatile(TWELVE(clear) clear(12) clear(13) "1:\n" TWELVE(op) "dec %0\njnz 1b\nvzeroupper\n" : "+r"(n) : : CLOBBERS); \
  }
#define CLEAR_Z(i) "vpxord %%zmm" #i ",%%zmm" #i ",%%zmm" #i "\n"
#define CLEAR_Y(i) "vpxor %%ymm" #i ",%%ymm" #i ",%%ymm" #i "\n"
#define VNNI_Z(i) "vpdpbusd %%zmm12,%%zmm13,%%zmm" #i "\n"
#define BF16_Z(i) "vdpbf16ps %%zmm12,%%zmm13,%%zmm" #i "\n"
#define FMA_Z(i) "vfmadd231ps %%zmm12,%%zmm13,%%zmm" #i "\n"
#define FMA_Y(i) "vfmadd231ps %%ymm12,%%ymm13,%%ymm" #i "\n"

#endif
