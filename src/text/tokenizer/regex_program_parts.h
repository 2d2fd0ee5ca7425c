/// Inside of regex programs.
#ifndef CRN_TEXT_TOKENIZER_REGEX_PROGRAM_PARTS_H
#define CRN_TEXT_TOKENIZER_REGEX_PROGRAM_PARTS_H

#include <stdint.h>

#include "base/str.h"
#include "text/tokenizer/regex_program.h"

enum {
  CRN_PROGRAM_MAX_SETS = 32,  ///< a set is a bit of a mask
  CRN_PROGRAM_MAX_ALTERNATIVES = 32,
  CRN_PROGRAM_MAX_ITEMS = 12,     ///< of one alternative; bounds the recursion of the matcher
  CRN_PROGRAM_MAX_BRANCHES = 16,  ///< of one group
  CRN_PROGRAM_MAX_CHARS = 4,      ///< of one branch
  CRN_PROGRAM_MAX_CLASSES = 256,  ///< different masks
  CRN_PROGRAM_BLOCK = 128,        ///< characters of one block of the class table
  CRN_PROGRAM_N_BLOCKS = 0x110000 / CRN_PROGRAM_BLOCK,
};

typedef enum crn_program_kind {
  CRN_PROGRAM_RUN,    ///< characters of a set, as many as there are
  CRN_PROGRAM_GROUP,  ///< one of several short rows of characters, or nothing when optional
  CRN_PROGRAM_LOOK,   ///< the next character is in a set, or is not
} crn_program_kind;

/// One row of a group: `n` sets, a character each.
typedef struct crn_program_branch {
  uint32_t sets[CRN_PROGRAM_MAX_CHARS];
  uint8_t n;
} crn_program_branch;

typedef struct crn_program_item {
  crn_program_kind kind;
  uint32_t set;  ///< the one bit of the set
  uint32_t min, max;
  bool possessive;  ///< RUN: what was taken is not given back, by the pattern or because it never helps
  bool optional;    ///< GROUP
  bool negated;     ///< LOOK
  uint8_t n_branches;
  crn_program_branch branches[CRN_PROGRAM_MAX_BRANCHES];
} crn_program_item;

typedef struct crn_program_alternative {
  crn_program_item items[CRN_PROGRAM_MAX_ITEMS];
  size_t n_items;
  uint32_t first;  ///< sets a match can begin with
} crn_program_alternative;

/// A class is a set of characters that no set of the pattern tells apart.
struct crn_regex_program {
  const cairn_allocator *allocator;
  size_t bytes;                              ///< of this object
  uint32_t masks[CRN_PROGRAM_MAX_CLASSES];   ///< by class: the sets its characters are in
  uint32_t starts[CRN_PROGRAM_MAX_CLASSES];  ///< by class: the alternatives that can begin with it
  size_t n_classes;
  uint8_t ascii[128];  ///< class by character
  uint16_t blocks[CRN_PROGRAM_N_BLOCKS];
  uint8_t *classes;  ///< by block and character in it
  size_t n_classes_room;
  size_t n_alternatives;
  crn_program_alternative alternatives[CRN_PROGRAM_MAX_ALTERNATIVES];
};

/// The sets of a pattern while it is read: each is an expression for one character.
typedef struct crn_program_sets {
  crn_str expressions[CRN_PROGRAM_MAX_SETS];
  size_t n;
} crn_program_sets;

/// Reads a translated pattern. `*out_known` tells whether every construct is one programs have. Errors: OUT_OF_MEMORY.
cairn_status crn_regex_program_read(const char *pattern, size_t bytes, crn_regex_program *program, crn_program_sets *sets, bool *out_known);

#endif
