/// Rows of states as plain bytes, whatever storage they lie in: what files keep and what passes between sequences.
#ifndef CRN_ENGINES_LLM_ROWS_H
#define CRN_ENGINES_LLM_ROWS_H

#include "engines/llm/snapshots.h"

/// Bytes of `n` rows of state `i`, or of all of it when it has no rows that are kept one by one (crn_llm_state_is_whole).
size_t crn_llm_rows_bytes(const crn_llm_states *s, int i, int64_t n);
/// Bytes of `n` rows of all states that have rows.
size_t crn_llm_all_rows_bytes(const crn_llm_states *s, int64_t n);
/// Bytes of all states that are kept whole.
size_t crn_llm_whole_bytes(const crn_llm_states *s);

/// Copies rows [first, end) of state `i` out of or into it; `bytes` as crn_llm_rows_bytes. Errors: OUT_OF_MEMORY, OUT_OF_RANGE.
cairn_status crn_llm_rows_read(const crn_llm_states *s, int i, int64_t first, int64_t end, void *out_data, size_t bytes);
cairn_status crn_llm_rows_write(crn_llm_states *s, int i, int64_t first, int64_t end, const void *data, size_t bytes);

/// Rows [first, end) of every state that has rows, one state behind the other.
cairn_status crn_llm_all_rows_read(const crn_llm_states *s, int64_t first, int64_t end, void *out_data);
cairn_status crn_llm_all_rows_write(crn_llm_states *s, int64_t first, int64_t end, const void *data);
/// Writes all states that are kept whole, from crn_llm_whole_bytes bytes, one state behind the other.
cairn_status crn_llm_whole_write(crn_llm_states *s, const void *data);

/// Gives `to`, which has room for them and agrees in its first `first` rows, the rows [first, end) of `from`: pages where both have
/// pages, else copies. Errors: OUT_OF_MEMORY (rows behind `first` are then undefined).
cairn_status crn_llm_rows_pass(const crn_llm_states *from, int64_t first, int64_t end, crn_llm_states *to);

/// Whether rows of the sequence were dropped by a window: what is left stands for no prefix.
bool crn_llm_rows_were_dropped(const crn_llm_states *s);

#endif
