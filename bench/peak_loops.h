/// Loops of one instruction over twelve independent sums, for measuring how fast it is at most. The operands are ordinary
/// numbers. Tiles are measured twice, with operands that stay in registers and with operands that are loaded as products do it: the
/// same instruction then gets other numbers every time, which takes so much power that it runs a quarter slower. The including file defines
/// TURNS, how often the loop goes round.
#ifndef CRN_BENCH_PEAK_LOOPS_H
#define CRN_BENCH_PEAK_LOOPS_H

#include <stdint.h>
#include <string.h>

enum { PEAK_STEPS = 8 };  ///< of 4 KB, that are in the first-level cache together

/// Operands: halves that are, alone and in pairs, floats between 1 and 2 in size.
static inline const uint16_t *peak_numbers(void) {
  enum { N = PEAK_STEPS * 4 * 16 * 32 };
  static _Alignas(64) uint16_t numbers[N];
  for (uint32_t i = 0; numbers[0] == 0 && i < N; i++) numbers[N - 1 - i] = (uint16_t)(0x3f80 ^ ((i * 2654435761u >> 7) & 0x80ff & ~0x80u));
  return numbers;
}

/// Operands of byte tiles: bytes of all sizes.
static inline const uint16_t *peak_bytes(void) {
  enum { N = PEAK_STEPS * 4 * 16 * 32 };
  static _Alignas(64) uint16_t numbers[N];
  for (uint32_t i = 0; numbers[0] == 0 && i < N; i++) numbers[N - 1 - i] = (uint16_t)((i + 1) * 2654435761u >> 13 | 1);
  return numbers;
}

#define TWELVE(op) op(0) op(1) op(2) op(3) op(4) op(5) op(6) op(7) op(8) op(9) op(10) op(11)
#define CLOBBERS \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "memory"
#define LOOP(name, clear, op)                                                                        \
  static void name(void) {                                                                           \
    int64_t n = TURNS;                                                                               \
    __asm__ volatile(TWELVE(clear) clear##_OPERANDS "1:\n" TWELVE(op) "dec %0\njnz 1b\nvzeroupper\n" \
                     : "+r"(n)                                                                       \
                     : "r"(peak_numbers())                                                           \
                     : CLOBBERS);                                                                    \
  }
#define CLEAR_Z(i) "vpxord %%zmm" #i ",%%zmm" #i ",%%zmm" #i "\n"
#define CLEAR_Y(i) "vpxor %%ymm" #i ",%%ymm" #i ",%%ymm" #i "\n"
#define CLEAR_Z_OPERANDS "vmovdqu64 (%1),%%zmm12\nvmovdqu64 64(%1),%%zmm13\n"
#define CLEAR_Y_OPERANDS "vmovdqu (%1),%%ymm12\nvmovdqu 64(%1),%%ymm13\n"
#define VNNI_Z(i) "vpdpbusd %%zmm12,%%zmm13,%%zmm" #i "\n"
#define BF16_Z(i) "vdpbf16ps %%zmm12,%%zmm13,%%zmm" #i "\n"
#define FMA_Z(i) "vfmadd231ps %%zmm12,%%zmm13,%%zmm" #i "\n"
#define FMA_Y(i) "vfmadd231ps %%ymm12,%%ymm13,%%ymm" #i "\n"

#define TILES_BEGIN                                                          \
  uint8_t config[64] __attribute__((aligned(64))) = {1};                     \
  for (int i = 0; i < 8; i++) {                                              \
    config[16 + 2 * i] = 64;                                                 \
    config[48 + i] = 16;                                                     \
  }                                                                          \
  __asm__ volatile(                                                          \
      "ldtilecfg %0\n"                                                       \
      "tilezero %%tmm0\ntilezero %%tmm1\ntilezero %%tmm2\ntilezero %%tmm3\n" \
      :                                                                      \
      : "m"(config))
#define TILES_LOAD "tileloadd (%1,%2),%%tmm4\ntileloadd 1024(%1,%2),%%tmm5\ntileloadd 2048(%1,%2),%%tmm6\ntileloadd 3072(%1,%2),%%tmm7\n"
#define TILES_MULTIPLY(instruction)                                                                                             \
  instruction " %%tmm6,%%tmm4,%%tmm0\n" instruction " %%tmm7,%%tmm4,%%tmm1\n" instruction " %%tmm6,%%tmm5,%%tmm2\n" instruction \
              " %%tmm7,%%tmm5,%%tmm3\n"

/// Four sums of two by two tiles, of 16 by 16 values, as the kernels for many rows have them, `n` turns: loop_<name>_tiles, and
/// loop_loaded_<name>_tiles with operands loaded every time.
#define TILE_LOOPS(name, instruction, numbers)                                                            \
  static inline void loop_##name##_tiles(int64_t n) {                                                     \
    TILES_BEGIN;                                                                                          \
    __asm__ volatile(TILES_LOAD "1:\n" TILES_MULTIPLY(instruction) "dec %0\njnz 1b\ntilerelease\n"        \
                     : "+r"(n)                                                                            \
                     : "r"(numbers()), "r"((int64_t)64)                                                   \
                     : "memory");                                                                         \
  }                                                                                                       \
  static inline void loop_loaded_##name##_tiles(int64_t n) {                                              \
    TILES_BEGIN;                                                                                          \
    for (int64_t i = 0; i < n; i++) {                                                                     \
      __asm__ volatile(TILES_LOAD TILES_MULTIPLY(instruction)                                             \
                       :                                                                                  \
                       : "r"((int64_t)0), "r"(numbers() + i % PEAK_STEPS * 4 * 16 * 32), "r"((int64_t)64) \
                       : "memory");                                                                       \
    }                                                                                                     \
    __asm__ volatile("tilerelease");                                                                      \
  }

TILE_LOOPS(bf16, "tdpbf16ps", peak_numbers)
TILE_LOOPS(bytes, "tdpbssd", peak_bytes)

#endif
