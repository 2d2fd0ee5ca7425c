/// Characters of an automaton as the bytes they are written in.
#ifndef CRN_TEXT_GRAMMAR_AUTOMATON_BYTES_H
#define CRN_TEXT_GRAMMAR_AUTOMATON_BYTES_H

#include "base/map.h"
#include "text/grammar/rules.h"

enum { CRN_BYTES_MOST = 8 };  ///< of a character as it is written: "\u0000"

/// Bytes one behind the other, each of a range, and the state they lead to.
typedef struct crn_byte_row {
  uint8_t first[CRN_BYTES_MOST], last[CRN_BYTES_MOST];
  int32_t n, to;
} crn_byte_row;

typedef CRN_VEC(crn_byte_row) crn_byte_rows;

typedef struct crn_byte_writer {
  crn_rules *rules;
  size_t n_states;     ///< those that were given, and behind them those within characters
  crn_byte_rows rows;  ///< of the state that is written
  CRN_VEC(crn_edge) edges;
  crn_map inner;  ///< states within characters, by the rows that are left
  bool is_too_large;
} crn_byte_writer;

void crn_bytes_initialize(crn_byte_writer *w, crn_rules *rules, size_t n_states);
void crn_bytes_deinitialize(crn_byte_writer *w);
/// What leads from the state that is being written to another: sets and texts, of which none is the beginning of another.
void crn_bytes_add(crn_byte_writer *w, const crn_node *node, int32_t to);
void crn_bytes_end_state(crn_byte_writer *w, int32_t state);
/// The automaton, which takes `ends` over. NULL after a failure.
const crn_node *crn_bytes_node(crn_byte_writer *w, const unsigned char *ends);

#endif
