/// A language of nodes as an automaton that may be in several places at once: a place for each character.
#ifndef CRN_TEXT_GRAMMAR_PLACES_H
#define CRN_TEXT_GRAMMAR_PLACES_H

#include "text/grammar/rules.h"

enum { CRN_PLACE_RANKS = 4 };

typedef struct crn_place_node {
  crn_set set;      ///< characters that lead on; n 0 = none
  int32_t next;     ///< where they lead
  int32_t also[2];  ///< places one is in at the same time; -1 = none
  /// Copies of one place in rounds of a repetition that may be left out are of one group. What a copy leads to, each copy of ranks that are
  /// all at most as high leads to as well: fewer rounds were gone through.
  int32_t group;
  uint16_t rank[CRN_PLACE_RANKS];
} crn_place_node;

typedef struct crn_places {
  crn_rules *rules;
  size_t most;  ///< places
  CRN_VEC(crn_place_node) nodes;
  int32_t start, end;
  const char *failure;  ///< why it is not whole; NULL when it is
  int n_ranks, depth;
  uint16_t ranks[CRN_PLACE_RANKS];
} crn_places;

/// Fills `p`, which is zero but for `rules` and `most`. Rules are followed, as far as they do not lead to themselves. Failures are kept in
/// `failure`, those of memory in the rules too.
void crn_places_build(crn_places *p, const crn_node *node);
void crn_places_free(crn_places *p);

#endif
