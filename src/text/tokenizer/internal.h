/// Inside of cairn_tokenizer: the parts of the pipeline and what they share.
///
/// A text runs through: added tokens as written → normalizers → added tokens as normalized → pre-tokenizers → model →
/// truncation → post-processors → padding. Ids run back through the decoders. Nested sequences of the file are kept as
/// one flat list a stage.
#ifndef CRN_TEXT_TOKENIZER_INTERNAL_H
#define CRN_TEXT_TOKENIZER_INTERNAL_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/map.h"
#include "cairn/tokenizer.h"
#include "text/tokenizer/regex.h"
#include "text/tokenizer/text.h"
#include "text/tokenizer/trie.h"

enum {
  CRN_MAX_TOKEN_ID = (1 << 24) - 1,
  CRN_MAX_NESTING = 32,  ///< of sequences within sequences
};

/// A byte string that lives in the tokenizer's arena, NUL-terminated.
typedef struct crn_view {
  const char *text;
  size_t bytes;
} crn_view;

// --- while a tokenizer is made ---------------------------------------------------------------------------------------

typedef struct crn_build {
  cairn_context *context;
  const cairn_allocator *allocator;
  cairn_tokenizer *tokenizer;
  const char *what;  ///< names the file in messages
} crn_build;

/// Compiles a pattern and makes the tokenizer its owner.
cairn_status crn_build_regex(crn_build *build, const char *pattern, size_t bytes, bool literal, const crn_regex **out_regex);
/// {"String": …} or {"Regex": …}; `out_literal` (may be NULL) gets the plain string, empty for a regex.
cairn_status crn_build_pattern(crn_build *build, const json_t *object, const char *where, const crn_regex **out_regex,
                               crn_view *out_literal);
/// A string member copied into the arena (NULs inside are kept). Absent and required: CORRUPT; absent or null: bytes 0, text NULL.
cairn_status crn_build_view(crn_build *build, const json_t *object, const char *where, const char *key, bool required, crn_view *out_view);
/// A member that is a string of exactly one character.
cairn_status crn_build_char(crn_build *build, const json_t *object, const char *where, const char *key, uint32_t *out_code);
/// The "type" member.
cairn_status crn_build_type(const json_t *object, const char *where, const char **out_type);
/// A required boolean member.
cairn_status crn_build_bool(const json_t *object, const char *where, const char *key, bool *out);
/// Calls `load` for every leaf of a possibly nested {"type": "Sequence", `key`: […]} in order. null = nothing.
typedef cairn_status (*crn_build_leaf_fn)(crn_build *build, const json_t *leaf, const char *type);
cairn_status crn_build_sequence(crn_build *build, const json_t *json, const char *where, const char *key, crn_build_leaf_fn load);

// --- vocabulary ------------------------------------------------------------------------------------------------------

/// A text of the vocabulary. Two texts may have one id, which then decodes to the later one.
typedef struct crn_vocab_entry {
  const char *text;
  uint32_t bytes;
  int32_t id;
} crn_vocab_entry;

typedef struct crn_vocab_slot {
  uint32_t hash;
  int32_t entry;  ///< -1 = free
} crn_vocab_slot;

typedef struct crn_vocab {
  crn_vocab_slot *slots;  ///< open hash from text to id
  size_t n_slots;         ///< a power of two, more than twice the tokens
  crn_vocab_entry *entries;
  size_t n_entries;
  crn_view *tokens;  ///< by id; text NULL = no such id
  int32_t n_ids;     ///< largest id + 1
  size_t n_tokens;   ///< different texts
  int32_t max_bytes;
} crn_vocab;

/// From {"text": id, …}.
cairn_status crn_vocab_load_map(crn_build *build, const json_t *json);
/// From n texts whose id is their index. Of equal texts the last one is found by text.
cairn_status crn_vocab_load_list(crn_build *build, const crn_view *texts, size_t n);
/// A trie over all texts; values are ids.
cairn_status crn_vocab_trie(crn_build *build, crn_trie *trie);
int32_t crn_vocab_id(const crn_vocab *vocab, const char *text, size_t bytes);

// --- added tokens ----------------------------------------------------------------------------------------------------

typedef struct crn_added_token {
  crn_view content, normalized_content;
  int32_t id;
  bool single_word, lstrip, rstrip, normalized, special;
} crn_added_token;

typedef struct crn_added {
  crn_added_token *tokens;
  size_t n_tokens;
  crn_map by_content;   ///< content -> index
  crn_trie plain;       ///< tokens matched in the text as written; values are indices
  crn_trie normalized;  ///< tokens matched in the normalized text
} crn_added;

/// One stretch of a text: an added token (index >= 0) or text between (index -1).
typedef struct crn_stretch {
  size_t begin, end;
  int32_t token;
} crn_stretch;

typedef CRN_VEC(crn_stretch) crn_stretch_vec;

cairn_status crn_added_load(crn_build *build, const json_t *json);
/// Sets the added tokens of a tokenizer whose vocabulary and normalizers are ready. `tokens` ids are assigned here.
cairn_status crn_added_set(crn_build *build, const crn_added_token *tokens, size_t n_tokens);
cairn_status crn_added_split(const crn_added *added, const crn_trie *trie, const cairn_allocator *allocator, const char *text, size_t bytes,
                             crn_stretch_vec *out);

// --- encoding: what one call works with --------------------------------------------------------------------------------

typedef struct crn_match {
  size_t begin, end;
  bool hit;
} crn_match;

typedef CRN_VEC(crn_match) crn_match_vec;

typedef struct crn_symbol {
  int32_t id;
  int32_t previous, next;
  uint32_t begin, bytes;  ///< bytes 0 = merged away
} crn_symbol;

typedef struct crn_candidate {
  uint32_t rank;
  float score;
  int32_t position, id;
  uint32_t bytes;
} crn_candidate;

typedef struct crn_best {
  double score;
  int32_t id, start;  ///< start -1 = not reached
} crn_best;

typedef struct crn_word crn_word;

typedef struct crn_word_cache crn_word_cache;

/// What calls leave to each other. A call takes it out while it works, so that nobody waits and nothing is shared at once.
typedef struct crn_leftovers {
  _Atomic(crn_word_cache *) words;
} crn_leftovers;

/// Where a token comes from: bytes [begin, end) of a text.
typedef struct crn_span {
  uint32_t begin, end;
  uint32_t lead, trail;  ///< white space at the front and at the end of the token, in characters
  int32_t text;          ///< 0 = the first text, 1 = its pair, -1 = none
} crn_span;

typedef CRN_VEC(crn_span) crn_span_vec;

typedef struct crn_encoding {
  crn_i32_vec ids, types;
  bool spanned;  ///< whether spans are kept
  crn_span_vec spans;
} crn_encoding;

typedef CRN_VEC(crn_encoding) crn_encoding_vec;

typedef struct crn_run {
  const cairn_tokenizer *tokenizer;
  const cairn_allocator *allocator;
  crn_text text, spare;
  crn_piece_vec pieces, spare_pieces;
  crn_match_vec matches;
  crn_stretch_vec outer, inner;
  crn_regex_room *room;
  bool raw;  ///< the byte-level alphabet is left out
  CRN_VEC(crn_symbol) symbols;
  CRN_VEC(crn_candidate) heap;
  CRN_VEC(crn_best) best;
  crn_str word;
  crn_word_cache *cache;  ///< words met before, NULL = none yet
  crn_i32_vec codes;
  crn_i32_vec splits;   ///< SentencePiece BPE: by id of an unused piece, bytes of the left part it was joined of
  crn_i32_vec *ids;     ///< where tokens go
  crn_span_vec *spans;  ///< where their places go, NULL = nobody asks
  crn_piece piece;      ///< what the model is at; places are counted from its beginning
} crn_run;

cairn_status crn_run_initialize(crn_run *run, const cairn_tokenizer *tokenizer);
void crn_run_deinitialize(crn_run *run);
/// Ids of one text, without what post-processors add. Appends to `ids`.
cairn_status crn_run_encode(crn_run *run, const char *text, size_t bytes, crn_i32_vec *ids);
cairn_status crn_run_push(crn_run *run, int32_t id);
/// The same with the bytes [begin, end) of the model's piece the token stands for.
cairn_status crn_run_push_part(crn_run *run, int32_t id, size_t begin, size_t end);
/// The same for a token that reads `value` instead of what the vocabulary says.
cairn_status crn_run_push_value(crn_run *run, int32_t id, size_t begin, size_t end, crn_view value);
/// The token pushed last reaches to `end`.
void crn_run_extend(crn_run *run, size_t end);
/// The same for an added token found in a stretch of `text`.
cairn_status crn_run_push_added(crn_run *run, const crn_text *text, crn_stretch stretch, int32_t id);
/// Takes white space out of the places, as byte-level post-processors do; `add_prefix` says whether one space at the front
/// of a text was put there.
void crn_spans_trim(crn_encoding *encoding, const crn_view *texts, bool add_prefix);
/// From here on places are recorded in `spans`.
void crn_run_record(crn_run *run, crn_span_vec *spans);
/// A step writes its result to run->spare; this makes it run->text.
void crn_run_swap_texts(crn_run *run);

// --- the texts of one call ------------------------------------------------------------------------------------------------

/// Where a text made well-formed and the text of the caller go on together, behind a repaired place.
typedef struct crn_repair {
  size_t clean, given;
} crn_repair;

/// A text as the caller gives it, and as well-formed UTF-8.
typedef struct crn_input {
  crn_str room;
  crn_view text;
  CRN_VEC(crn_repair) repairs;
} crn_input;

void crn_inputs_initialize(const cairn_tokenizer *tokenizer, crn_input inputs[2]);
void crn_inputs_deinitialize(crn_input inputs[2]);
/// Malformed sequences become U+FFFD; well-formed text is borrowed as it is. Errors: INVALID_ARGUMENT.
cairn_status crn_input_read(crn_input *input, const char *text, size_t bytes);
/// The place in the caller's text of a place in the well-formed one.
size_t crn_input_place(const crn_input *input, size_t at);
/// How a text is encoded.
enum {
  CRN_ENCODE_SPECIAL = 1,  ///< add what the post-processor adds
  CRN_ENCODE_SPANS = 2,    ///< keep where tokens come from
  CRN_ENCODE_WHOLE = 4,    ///< no truncation and no padding, whatever the file says
};

/// Runs the whole pipeline over one or two texts; the result is in (*out)[0].
cairn_status crn_inputs_encode(const cairn_tokenizer *tokenizer, const crn_input inputs[2], size_t n, int flags, crn_encoding_vec *out);

// --- normalizers -----------------------------------------------------------------------------------------------------

typedef struct crn_normalizer crn_normalizer;

cairn_status crn_normalizers_load(crn_build *build, const json_t *json);
/// Normalizes run->text, which is one piece that starts at `shift` of the input.
cairn_status crn_normalizers_run(crn_run *run, uint32_t shift);

// --- pre-tokenizers --------------------------------------------------------------------------------------------------

typedef struct crn_pretokenizer crn_pretokenizer;

typedef enum crn_behavior {
  CRN_BEHAVIOR_REMOVED,
  CRN_BEHAVIOR_ISOLATED,
  CRN_BEHAVIOR_MERGED_WITH_PREVIOUS,
  CRN_BEHAVIOR_MERGED_WITH_NEXT,
  CRN_BEHAVIOR_CONTIGUOUS
} crn_behavior;

cairn_status crn_pretokenizers_load(crn_build *build, const json_t *json);
/// Appends a split by a pattern, isolated, or a byte-level step without a pattern: what GGUF's named pre-tokenizers are made of.
cairn_status crn_pretokenizers_add_split(crn_build *build, const char *pattern);
cairn_status crn_pretokenizers_add_byte_level(crn_build *build);
/// Appends what BERT cuts at: white space and punctuation.
cairn_status crn_pretokenizers_add_bert(crn_build *build);
/// Cuts run->pieces of run->text further.
cairn_status crn_pretokenizers_run(crn_run *run);
/// Whether a step looks at the origin of the text.
bool crn_pretokenizers_need_origins(const cairn_tokenizer *tokenizer);
/// Finds out whether the steps end in the byte-level alphabet, so that words may stay the bytes they are.
void crn_pretokenizers_plan(cairn_tokenizer *tokenizer);

/// Appends the parts of a piece that remain under a behavior, given the gapless row of matches that covers it.
cairn_status crn_split_emit(crn_run *run, const crn_match_vec *matches, crn_behavior behavior, crn_piece_vec *out);

/// Character of the byte-level alphabet for a byte, and back (-1 = not in the alphabet).
uint32_t crn_byte_char(unsigned char byte);
int crn_char_byte(uint32_t code);

// --- models ----------------------------------------------------------------------------------------------------------

typedef enum crn_model_kind {
  CRN_MODEL_BPE,
  CRN_MODEL_UNIGRAM,
  CRN_MODEL_WORDPIECE,
  CRN_MODEL_WORDLEVEL,
  CRN_MODEL_SPM,
  CRN_MODEL_SENTENCEPIECE,
} crn_model_kind;

typedef struct crn_pair_slot {
  uint64_t pair;  ///< left id << 32 | right id
  uint32_t rank;
  int32_t id;  ///< -1 = free
} crn_pair_slot;

typedef struct crn_model {
  crn_model_kind kind;
  int32_t unk_id;  ///< -1 = none
  crn_view unk_token;
  crn_view prefix, suffix;  ///< BPE, WordPiece: of a continuing piece, of the end of a word; text NULL = none
  bool fuse_unk, byte_fallback, ignore_merges;
  bool whole_line_ends;   ///< BPE: a word of line ends that is a token is that token, whatever the merges say
  int32_t byte_ids[256];  ///< of "<0xXX>"; -1 = none
  crn_pair_slot *pairs;   ///< BPE: open hash of n_pairs slots (a power of two)
  size_t n_pairs;
  int32_t short_ids[0x800];  ///< BPE: id of a one- or two-byte character, -1 = none
  int32_t raw_ids[256];      ///< BPE: by byte, the id of its character of the byte-level alphabet
  bool short_words;          ///< BPE: every id has one text
  const double *scores;      ///< Unigram: by id
  double unk_score;
  const float *float_scores;           ///< SPM: by id
  crn_trie trie;                       ///< Unigram
  uint32_t prefix_node;                ///< WordPiece: where the prefix leads in the trie
  bool has_prefixed;                   ///< WordPiece: whether any token starts with the prefix
  size_t max_word_chars;               ///< WordPiece
  const struct crn_sentencepiece *sp;  ///< SentencePiece
} crn_model;

cairn_status crn_model_load(crn_build *build, const json_t *json);
cairn_status crn_model_tokenize(crn_run *run, const char *text, size_t bytes);

cairn_status crn_bpe_load(crn_build *build, const json_t *json);
cairn_status crn_bpe_begin_merges(crn_build *build, size_t n_merges);
cairn_status crn_bpe_add_merge(crn_build *build, uint32_t rank, const char *left, size_t left_bytes, const char *right, size_t right_bytes);
void crn_bpe_finish(cairn_tokenizer *tokenizer);
cairn_status crn_bpe_tokenize(crn_run *run, const char *text, size_t bytes);
cairn_status crn_unigram_load(crn_build *build, const json_t *json);
cairn_status crn_unigram_tokenize(crn_run *run, const char *text, size_t bytes);
cairn_status crn_wordpiece_load(crn_build *build, const json_t *json);
cairn_status crn_wordpiece_tokenize(crn_run *run, const char *text, size_t bytes);
/// Readies a WordPiece model whose vocabulary, prefix and unknown token are set.
cairn_status crn_wordpiece_finish(crn_build *build);
cairn_status crn_wordlevel_load(crn_build *build, const json_t *json);
cairn_status crn_wordlevel_tokenize(crn_run *run, const char *text, size_t bytes);
cairn_status crn_spm_tokenize(crn_run *run, const char *text, size_t bytes);
/// Joins the run->symbols of a text: of all neighbours that may be joined those of the best score first.
cairn_status crn_spm_merge(crn_run *run, const char *text);
cairn_status crn_sentencepiece_tokenize(crn_run *run, const char *text, size_t bytes);
/// Fills byte_ids from the vocabulary.
void crn_model_find_bytes(cairn_tokenizer *tokenizer);

// --- post-processing -------------------------------------------------------------------------------------------------

typedef struct crn_processor crn_processor;

typedef struct crn_truncation {
  bool active, left;
  enum { CRN_TRUNCATE_LONGEST, CRN_TRUNCATE_FIRST, CRN_TRUNCATE_SECOND } strategy;
  size_t max_length, stride;
} crn_truncation;

typedef struct crn_padding {
  bool active, left, fixed;
  size_t length, multiple;
  int32_t id, type;
} crn_padding;

cairn_status crn_processors_load(crn_build *build, const json_t *json);
/// Adds a template "bos A eos" (a -1 is left out), for pairs "bos A eos bos B eos".
cairn_status crn_processors_add_bos_eos(crn_build *build, int32_t bos, int32_t eos);
/// Adds a frame as BERT has it: "cls A sep", for pairs "cls A sep B sep".
cairn_status crn_processors_add_frame(crn_build *build, int32_t cls, int32_t sep);
cairn_status crn_limits_load(crn_build *build, const json_t *root);
/// Truncates, adds special tokens, joins and pads one or two encodings; the result is in (*encodings)[0]. `texts` are the
/// two texts the spans point into (NULL when no spans are kept).
cairn_status crn_postprocess(const cairn_tokenizer *tokenizer, const crn_view *texts, crn_encoding_vec *encodings, int flags);
void crn_encodings_free(const cairn_allocator *allocator, crn_encoding_vec *encodings);

// --- decoders --------------------------------------------------------------------------------------------------------

typedef struct crn_decoder crn_decoder;

cairn_status crn_decoders_load(crn_build *build, const json_t *json);
cairn_status crn_decoders_add_byte_level(crn_build *build);
/// What a SentencePiece vocabulary needs: U+2581 to space, byte tokens, one leading space dropped when `strip`.
cairn_status crn_decoders_add_spm(crn_build *build, bool strip);
/// WordPiece: "##" joins to the token before, others are set apart by a space; cleaned up.
cairn_status crn_decoders_add_wordpiece(crn_build *build);
/// How a decoder stage keeps what is not certain yet.
typedef struct crn_decoder_state {
  crn_str held;
  crn_str work;  ///< what the stage is about to pass on; kept to spare allocations
  size_t count;
  bool started, done;
} crn_decoder_state;

typedef struct crn_decoding {
  const cairn_tokenizer *tokenizer;
  const cairn_allocator *allocator;
  crn_decoder_state *states;  ///< one per decoder
  bool started;
  crn_str out;
  crn_regex_room *room;
} crn_decoding;

cairn_status crn_decoding_initialize(crn_decoding *d, const cairn_tokenizer *tokenizer);
void crn_decoding_deinitialize(crn_decoding *d);
/// Takes one token; what became certain is appended to d->out.
cairn_status crn_decoding_push(crn_decoding *d, const char *token, size_t bytes);
/// Gives out the rest and starts afresh.
cairn_status crn_decoding_finish(crn_decoding *d);

// --- names of special tokens -------------------------------------------------------------------------------------------

enum { CRN_N_ROLES = 7 };

/// "bos_token" and so on, in the order of cairn_tokenizer.roles.
extern const char *const crn_role_names[CRN_N_ROLES];

/// Reads tokenizer_config.json and special_tokens_map.json of a folder, as far as they are there.
cairn_status crn_roles_load(cairn_tokenizer *tokenizer, const char *folder);

// --- the tokenizer ---------------------------------------------------------------------------------------------------

/// What an id stands for when decoding.
typedef struct crn_token_entry {
  crn_view token;    ///< as the vocabulary or the added token spells it
  crn_view decoded;  ///< as the decoders get it
  bool special;      ///< an added token marked special
  bool skipped;      ///< left out when special tokens are skipped
} crn_token_entry;

struct cairn_tokenizer {
  atomic_int references;
  cairn_context *context;
  const cairn_allocator *allocator;
  crn_arena arena;
  CRN_VEC(crn_regex *) regexes;
  crn_vocab vocab;
  crn_added added;
  crn_model model;
  crn_normalizer *normalizers;
  crn_pretokenizer *pretokenizers;
  crn_processor *processors;
  crn_decoder *decoders;
  size_t n_normalizers, n_pretokenizers, n_processors, n_decoders;
  bool has_decoder;  ///< whether there is one at all, even if it does nothing: without, tokens are set apart by spaces
  size_t normalizer_room, pretokenizer_room, processor_room, decoder_room;
  bool tracked;  ///< origins are needed
  bool raw;      ///< words may be encoded as the bytes they are (models/raw.h)
  size_t n_raw_steps;
  const crn_regex *raw_regex;
  crn_leftovers *leftovers;
  crn_truncation truncation;
  crn_padding padding;
  crn_token_entry *entries;  ///< by id
  int32_t n_entries;
  const char *roles[CRN_N_ROLES];  ///< NULL = not named
};

/// An empty tokenizer with one reference.
cairn_status crn_tokenizer_create_empty(cairn_context *context, cairn_tokenizer **out_tokenizer);
/// Makes the table of entries when vocabulary and added tokens are complete.
cairn_status crn_tokenizer_finish(crn_build *build);
/// Makes room for one more item in an arena array that grows by doubling.
cairn_status crn_build_grow(crn_build *build, void **items, size_t n, size_t *room, size_t item_bytes);

#endif
