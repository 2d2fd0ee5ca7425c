/// The language model object and what the files about it share.
#ifndef CAIRN_PYTHON_LLM_H
#define CAIRN_PYTHON_LLM_H

#include "fields.h"
#include "ids.h"

// --- sequences ----------------------------------------------------------------------------------------------------------

typedef struct crn_py_llm {
  PyObject_HEAD cairn_llm *llm;   ///< NULL = closed
  PyObject *array_type;           ///< of the rows of logits
  PyObject *engine;               ///< its name, which may be asked for at any time
  int n_calls;                    ///< that use the sequence now, or wait for it, without the GIL
  bool is_in_callback;            ///< one of them calls back ...
  unsigned long callback_thread;  ///< ... on this thread
} crn_py_llm;

/// A Python object of `type` (LLM or a subclass) for a sequence, which it closes, also on failure.
PyObject *crn_py_llm_new(PyTypeObject *type, PyObject *array_type, cairn_llm *llm);
/// Whether `type` is LLM or a subclass; otherwise a TypeError is set.
bool crn_py_is_llm_type(PyObject *type);

/// Between these the sequence may be used without the GIL and is not closed. Entering raises FailedPreconditionError when it is closed.
bool crn_py_llm_enter(crn_py_llm *self);
void crn_py_llm_leave(crn_py_llm *self);
/// Runs `call` (a status, made of `self->llm`) without the GIL. On failure the function it stands in returns NULL with the exception.
#define CRN_PY_LLM_CALL(self, call)                         \
  do {                                                      \
    cairn_status call_status;                               \
    if (!crn_py_llm_enter(self)) return NULL;               \
    CRN_PY_UNLOCKED(call_status, call);                     \
    if (call_status != CAIRN_OK) crn_py_raise(call_status); \
    crn_py_llm_leave(self);                                 \
    if (call_status != CAIRN_OK) return NULL;               \
  } while (0)

/// The methods of sequences.c.
PyObject *crn_py_llm_close(PyObject *self, PyObject *unused);
PyObject *crn_py_llm_create_sequence(PyObject *self, PyObject *unused);
PyObject *crn_py_llm_fork(PyObject *self, PyObject *args);
PyObject *crn_py_llm_trim(PyObject *self, PyObject *args);
PyObject *crn_py_llm_reset(PyObject *self, PyObject *args);
PyObject *crn_py_llm_warm_up(PyObject *self, PyObject *args);
PyObject *crn_py_llm_register_prefix(PyObject *self, PyObject *args);
PyObject *crn_py_llm_save(PyObject *self, PyObject *path);
PyObject *crn_py_llm_restore(PyObject *self, PyObject *path);

// --- options of a model -------------------------------------------------------------------------------------------------

/// Texts belong to the dict they were read from.
typedef struct crn_py_llm_options {
  cairn_llm_options llm;
  cairn_model_options model;
  const char *precision, *when_busy;
  PyObject *token_tables;
  cairn_named_array *tables;
  bool is_eager;  ///< of loaders
} crn_py_llm_options;

/// Reads the keywords of a call (NULL = none); false with an exception. To be freed in both cases.
bool crn_py_llm_options_read(PyObject *kwargs, crn_py_llm_options *out);
void crn_py_llm_options_free(crn_py_llm_options *options);

// --- generations ----------------------------------------------------------------------------------------------------------

/// Everything one generation needs: its options, what they point to, and what its callbacks need. Callbacks run on the thread that runs
/// the generation, which has given up the GIL.
typedef struct crn_py_call {
  cairn_generate_options options;
  PyObject *args;        ///< the dict the objects below are borrowed from
  PyObject *array_type;  ///< of the rows of logits
  crn_py_llm *llm;       ///< whose call it is; NULL in a batch
  PyObject *tokens, *stop, *stop_ids, *shown, *forced, *images;
  PyObject *on_token, *on_logits, *should_cancel, *summarise, *logprobs, *top_logprobs;
  crn_py_llm *draft;
  const char *form, *guide_kind, *overflow, *speculation;
  int n_top;  ///< tokens of a row that `top_logprobs` gets
  int32_t *ids[3], *summary;
  const char **texts[2];
  PyObject *lists[2];  ///< which own the texts
  cairn_image *pictures;
  float *row;  ///< the last row of logits, which the next token is chosen by; NULL = there is none
  int64_t row_size;
  bool has_row;
  crn_py_callback error;       ///< the first exception of a callback
  crn_py_callback *interrupt;  ///< of a batch: takes exceptions that are no Exception, KeyboardInterrupt above all
} crn_py_call;

/// Reads the keywords of a generation. NULL with an exception. The draft is not entered yet.
crn_py_call *crn_py_call_new(PyObject *array_type, PyObject *kwargs);
void crn_py_call_free(crn_py_call *call);
/// Keeps the exception that is set. GIL held.
void crn_py_call_keep_error(crn_py_call *call);
/// The callbacks, in callbacks.c.
void crn_py_call_set_callbacks(crn_py_call *call);
cairn_status crn_py_call_on_logits(void *user, int64_t position, const float *row, int64_t vocab_size);
/// Appends the log-probability of a token, by the last row, to `logprobs`, and the best ones to `top_logprobs`. GIL held; false with
/// an exception.
bool crn_py_call_rate(crn_py_call *call, int32_t token);

/// What a generation gave, as a dict.
PyObject *crn_py_generation_dict(const cairn_generation *generation, PyObject *engine);

PyObject *crn_py_llm_generate(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *crn_py_llm_forward(PyObject *self, PyObject *args, PyObject *kwargs);

#endif
