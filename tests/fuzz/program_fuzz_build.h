/// Random valid programs from bytes, in two forms that must compute the same: see program_fuzz.c.
#ifndef CRN_TESTS_FUZZ_PROGRAM_FUZZ_BUILD_H
#define CRN_TESTS_FUZZ_PROGRAM_FUZZ_BUILD_H

#include "program/builder.h"

enum { FUZZ_MAX_INPUTS = 4, FUZZ_MAX_VALUES = 48, FUZZ_MAX_OUTPUTS = 80 };

/// The bytes that decide. At the end of the bytes every choice is 0.
typedef struct choices {
  const uint8_t *bytes;
  size_t n, at;
} choices;

/// What became of the programs so far, for random_programs.c.
typedef struct fuzz_counts {
  long programs, built, ran, composites, broken, refused;
} fuzz_counts;
extern fuzz_counts g_fuzz_counts;

uint32_t choose(choices *c, uint32_t below);

/// How one and the same program is built.
typedef struct form {
  bool constants;   ///< inputs after the first become constants, which are folded while loading
  bool decomposed;  ///< broadcasting ops as broadcast_to and the plain op
} form;

typedef struct fuzz_input {
  char name[8];
  cairn_dtype dtype;
  int rank;
  int64_t dims[CAIRN_MAX_RANK];
  uint64_t data[256];  ///< elements; 64-bit so that any type is aligned
} fuzz_input;

typedef struct fuzz_program {
  crn_program *program;
  int n_inputs, n_outputs;
  fuzz_input inputs[FUZZ_MAX_INPUTS];
  bool is_given[FUZZ_MAX_INPUTS];   ///< still an input of the function
  bool is_close[FUZZ_MAX_OUTPUTS];  ///< compared with a tolerance: a composite's result
  char output_names[FUZZ_MAX_OUTPUTS][8];
} fuzz_program;

/// Builds a program; the caller destroys it. Returns the builder's status: OUT_OF_MEMORY at most, for what is generated is valid.
cairn_status fuzz_build(choices *c, const form *f, fuzz_program *out);

#endif
