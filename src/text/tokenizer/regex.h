/// Regular expressions as tokenizer.json files mean them (Oniguruma, Ruby syntax), matched through PCRE2.
#ifndef CRN_TEXT_TOKENIZER_REGEX_H
#define CRN_TEXT_TOKENIZER_REGEX_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

typedef struct crn_regex crn_regex;

/// Room for the positions of one match. Thread: one user at a time.
typedef struct crn_regex_room crn_regex_room;

/// Compiles `pattern` (literal = a plain string to be found as it is). `what` names the place in messages.
/// Owner: unique; crn_regex_destroy. Errors: UNSUPPORTED (a construct that has no translation), CORRUPT (bad syntax).
cairn_status crn_regex_create(const cairn_allocator *allocator, const char *pattern, size_t bytes, bool literal, const char *what,
                              crn_regex **out_regex);
void crn_regex_destroy(crn_regex *regex);
/// Makes matching faster where the pattern allows it, at the cost of some milliseconds once: for texts that are long.
/// Matches are the same before and after. Thread: safe. Errors: OUT_OF_MEMORY.
cairn_status crn_regex_prepare(crn_regex *regex);
/// Whether crn_regex_prepare has made a difference.
bool crn_regex_is_fast(const crn_regex *regex);

cairn_status crn_regex_room_create(crn_regex_room **out_room);
void crn_regex_room_destroy(crn_regex_room *room);

/// Walks over the matches of a text the way the reference does: after an empty match directly behind the previous match
/// the search moves on by one character.
typedef struct crn_regex_walk {
  const crn_regex *regex;
  const struct crn_regex_program *program;  ///< NULL: by PCRE2
  crn_regex_room *room;
  const char *text;
  size_t bytes, at;
  bool has_last;
  size_t last_end;
} crn_regex_walk;

/// `text` must be valid UTF-8.
void crn_regex_walk_begin(crn_regex_walk *walk, const crn_regex *regex, crn_regex_room *room, const char *text, size_t bytes);
/// Errors: FAILED_PRECONDITION when the match limit is exceeded, OUT_OF_MEMORY.
cairn_status crn_regex_walk_next(crn_regex_walk *walk, bool *out_found, size_t *out_begin, size_t *out_end);

/// Writes the PCRE2 spelling of an Oniguruma pattern. Errors: UNSUPPORTED, CORRUPT.
cairn_status crn_regex_translate(const char *pattern, size_t bytes, const char *what, crn_str *out);

#endif
