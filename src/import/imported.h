/// What every importer of a language model hands back: a program with the standard contract and what an engine needs to
/// know beside it.
#ifndef CRN_IMPORT_IMPORTED_H
#define CRN_IMPORT_IMPORTED_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/task.h"
#include "cairn/tokenizer.h"
#include "program/ir.h"

/// A tokenizer that is being made; the importer's own.
typedef struct crn_imported_text {
  crn_task task;
  void *user;
  void (*finish)(void *user, cairn_tokenizer **out_tokenizer);  ///< gives back what `user` holds, behind the end of the task
} crn_imported_text;

/// Owner: unique; crn_imported_model_destroy. Texts and lists are borrowed from it.
typedef struct crn_imported_model {
  cairn_context *context;  ///< kept alive
  crn_arena arena;         ///< holds the texts and lists

  /// Function `main`: inputs input_ids and position_ids si32 [1,-1], states keyCache and valueCache
  /// [layers,1,kv_heads,-1,head_dim], output logits [1,-1,vocab_size]. Whoever takes it over sets the member to NULL.
  crn_program *program;
  cairn_tokenizer *tokenizer;  ///< NULL when the file has none, and before crn_imported_model_wait
  crn_imported_text *making;   ///< NULL = nothing is to be waited for
  const char *chat_template;   ///< NULL when the file has none
  const char *name;            ///< as the file gives it, "" when it does not
  const char *architecture;
  int64_t context_length;  ///< the model was trained for
  int64_t vocab_size;      ///< of the logits
  int32_t bos_id;          ///< -1 = none
  int32_t eos_id;          ///< -1 = none; also the first of eos_ids
  bool add_bos, add_eos;   ///< what the tokenizer adds when asked for special tokens
  const int32_t *eos_ids;  ///< every id that ends a turn or a text
  size_t n_eos_ids;
} crn_imported_model;

/// An empty model that keeps `context`. Cannot fail.
void crn_imported_model_initialize(crn_imported_model *model, cairn_context *context);
/// Waits for the tokenizer that an importer is making beside other work. Errors: those of the tokenizer.
cairn_status crn_imported_model_wait(crn_imported_model *model);
void crn_imported_model_destroy(crn_imported_model *model);

#endif
