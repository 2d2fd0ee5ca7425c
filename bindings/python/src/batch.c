// Batch: many generations on one model at once.
#include <stdlib.h>

#include "llm.h"

/// One sequence of a batch.
typedef struct member {
  int64_t id;
  crn_py_call *call;
} member;

typedef struct batch_object {
  PyObject_HEAD cairn_llm_batch *batch;  ///< NULL = closed
  PyObject *array_type, *engine;
  member *members;
  size_t n_members, capacity;
  size_t n_joining;           ///< for which there is a place among the members
  int n_calls;                ///< that use the batch now, without the GIL
  crn_py_callback interrupt;  ///< KeyboardInterrupt and the like, out of a callback
} batch_object;

static batch_object *get(PyObject *self) { return (batch_object *)self; }

// --- creation and end -------------------------------------------------------------------------------------------------------

static PyObject *make(PyTypeObject *type, const crn_py_llm *llm, cairn_llm_batch *batch) {
  PyObject *self = ((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (!self) {
    cairn_llm_batch_destroy(batch);
    return NULL;
  }
  get(self)->batch = batch;
  get(self)->array_type = Py_NewRef(llm->array_type);
  get(self)->engine = Py_NewRef(llm->engine);
  return self;
}

// Batch(llm, max_sequences=0, max_step_seconds=0, max_step_tokens=0, sharing=True)
static PyObject *create(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static char *keywords[] = {"llm", "max_sequences", "max_step_seconds", "max_step_tokens", "sharing", NULL};
  PyObject *llm;
  cairn_llm_batch_options o = {0};
  long long tokens = 0;
  int sharing = 1;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|idLp", keywords, crn_py.llm_type, &llm, &o.max_sequences, &o.max_step_seconds, &tokens,
                                   &sharing))
    return NULL;
  o.max_step_tokens = tokens;
  o.no_sharing = !sharing;
  cairn_llm_batch *batch = NULL;
  CRN_PY_LLM_CALL((crn_py_llm *)llm, cairn_llm_batch_create(((crn_py_llm *)llm)->llm, &o, &batch));
  return make(type, (crn_py_llm *)llm, batch);
}

// Callbacks are never called here, so the sequences go first.
static void empty(batch_object *b) {
  cairn_llm_batch *batch = b->batch;
  b->batch = NULL;
  if (batch) {
    Py_BEGIN_ALLOW_THREADS cairn_llm_batch_destroy(batch);
    Py_END_ALLOW_THREADS
  }
  while (b->n_members) crn_py_call_free(b->members[--b->n_members].call);
  free(b->members);
  b->members = NULL;
  b->capacity = 0;
  if (crn_py_callback_restore(&b->interrupt)) PyErr_Clear();
}

static PyObject *close_batch(PyObject *self, PyObject *unused) {
  (void)unused;
  if (get(self)->n_calls) return crn_py_fail(CAIRN_BUSY, "the batch is in use by a call: it can be closed when that has ended");
  empty(get(self));
  Py_RETURN_NONE;
}

static int traverse(PyObject *self, visitproc visit, void *arg) {
  const batch_object *b = get(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(b->array_type);
  for (size_t i = 0; i < b->n_members; i++) Py_VISIT(b->members[i].call->args);
  return 0;
}

static int clear(PyObject *self) {
  empty(get(self));
  return 0;
}

static void deallocate(PyObject *self) {
  PyObject_GC_UnTrack(self);
  empty(get(self));
  Py_XDECREF(get(self)->array_type);
  Py_XDECREF(get(self)->engine);
  crn_py_free(self);
}

// --- use ----------------------------------------------------------------------------------------------------------------------

static bool enter(batch_object *b) {
  if (!b->batch) return crn_py_fail(CAIRN_FAILED_PRECONDITION, "the batch is closed");
  b->n_calls++;
  return true;
}

static void leave(batch_object *b) { b->n_calls--; }

/// Runs `call` (a status) without the GIL. On failure the function it stands in returns NULL with the exception.
#define BATCH_CALL(b, call)                                 \
  do {                                                      \
    cairn_status call_status;                               \
    if (!enter(b)) return NULL;                             \
    CRN_PY_UNLOCKED(call_status, call);                     \
    if (call_status != CAIRN_OK) crn_py_raise(call_status); \
    leave(b);                                               \
    if (call_status != CAIRN_OK) return NULL;               \
  } while (0)

// --- coming and going ---------------------------------------------------------------------------------------------------------

// A place for one more, beside those that others keep.
static bool reserve(batch_object *b) {
  if (b->n_members + b->n_joining < b->capacity) return true;
  const size_t capacity = b->capacity ? 2 * b->capacity : 8;
  member *members = realloc(b->members, capacity * sizeof *members);
  if (!members) {
    PyErr_NoMemory();
    return false;
  }
  b->members = members;
  b->capacity = capacity;
  return true;
}

// Once the sequence is there, a step on another thread may use the call at any time; only taking the result ends that.
static bool join_with(batch_object *b, crn_py_call *c, int64_t *out_id) {
  cairn_status status;
  if (!reserve(b) || (c->draft && !crn_py_llm_enter(c->draft))) return false;
  crn_py_call_set_callbacks(c);
  c->options.speculation.draft = c->draft ? c->draft->llm : NULL;
  b->n_joining++;
  CRN_PY_UNLOCKED(status, cairn_llm_batch_join(b->batch, &c->options, out_id));
  b->n_joining--;
  // The batch makes its own sequences of the smaller model.
  if (c->draft) crn_py_llm_leave(c->draft);
  if (status != CAIRN_OK) {
    crn_py_raise(status);
    crn_py_callback_restore(&c->error);
    return false;
  }
  c->interrupt = &b->interrupt;
  b->members[b->n_members++] = (member){*out_id, c};
  return true;
}

// _join(**options) gives the number of the sequence.
static PyObject *join(PyObject *self, PyObject *args, PyObject *kwargs) {
  batch_object *b = get(self);
  int64_t id = 0;
  if (!PyArg_ParseTuple(args, "") || !enter(b)) return NULL;
  crn_py_call *c = crn_py_call_new(b->array_type, kwargs);
  const bool joined = c && join_with(b, c, &id);
  if (!joined) crn_py_call_free(c);
  leave(b);
  return joined ? PyLong_FromLongLong(id) : NULL;
}

static PyObject *cancel(PyObject *self, PyObject *args) {
  long long id;
  if (!PyArg_ParseTuple(args, "L", &id)) return NULL;
  BATCH_CALL(get(self), cairn_llm_batch_cancel(get(self)->batch, id));
  Py_RETURN_NONE;
}

static PyObject *has_ended(PyObject *self, PyObject *args) {
  long long id;
  bool ended = false;
  if (!PyArg_ParseTuple(args, "L", &id)) return NULL;
  BATCH_CALL(get(self), cairn_llm_batch_has_ended(get(self)->batch, id, &ended));
  return PyBool_FromLong(ended);
}

// Takes the call of a sequence out of the list.
static crn_py_call *take_call(batch_object *b, int64_t id) {
  for (size_t i = 0; i < b->n_members; i++) {
    crn_py_call *c = b->members[i].call;
    if (b->members[i].id != id) continue;
    b->members[i] = b->members[--b->n_members];
    return c;
  }
  return NULL;
}

// What a callback raised comes before what the library made of it. The exception goes up as that of the sequence.
static PyObject *take(PyObject *self, PyObject *args) {
  batch_object *b = get(self);
  long long id;
  cairn_generation *generation = NULL;
  cairn_status status;
  if (!PyArg_ParseTuple(args, "L", &id) || !enter(b)) return NULL;
  CRN_PY_UNLOCKED(status, cairn_llm_batch_take(b->batch, id, &generation));
  if (status != CAIRN_OK) crn_py_raise(status);
  // There is one, with what there was so far, whenever the sequence was taken.
  crn_py_call *c = generation ? take_call(b, id) : NULL;
  PyObject *result = NULL;
  if (!(c && crn_py_callback_restore(&c->error)) && status == CAIRN_OK) result = crn_py_generation_dict(generation, b->engine);
  cairn_generation_destroy(generation);
  crn_py_call_free(c);
  leave(b);
  return result;
}

// --- steps --------------------------------------------------------------------------------------------------------------------

static PyObject *step_dict(const cairn_llm_batch_step_info *i) {
  return Py_BuildValue("{s:i,s:i,s:i,s:i,s:i,s:L,s:L,s:L,s:L,s:d}", "n_waiting", i->n_waiting, "n_prompting", i->n_prompting,
                       "n_generating", i->n_generating, "n_active", i->n_active, "n_ended", i->n_ended, "prompt_tokens",
                       (long long)i->prompt_tokens, "tokens", (long long)i->tokens, "draft_tokens", (long long)i->draft_tokens, "budget",
                       (long long)i->budget, "seconds", i->seconds);
}

// Steps until there is nothing left to do, or once. Between two of them Ctrl-C is noticed: nothing is lost, the steps can go on later.
static PyObject *steps(batch_object *b, bool all) {
  cairn_llm_batch_step_info info;
  cairn_status status;
  bool ok;
  if (!enter(b)) return NULL;
  do {
    CRN_PY_UNLOCKED(status, cairn_llm_batch_step(b->batch, &info));
    if (status != CAIRN_OK) crn_py_raise(status);
    ok = !crn_py_callback_restore(&b->interrupt) && status == CAIRN_OK && PyErr_CheckSignals() == 0;
  } while (ok && all && info.n_active);
  leave(b);
  return ok ? step_dict(&info) : NULL;
}

static PyObject *step(PyObject *self, PyObject *unused) {
  (void)unused;
  return steps(get(self), false);
}

static PyObject *run(PyObject *self, PyObject *unused) {
  (void)unused;
  return steps(get(self), true);
}

static PyObject *get_closed(PyObject *self, void *unused) {
  (void)unused;
  return PyBool_FromLong(!get(self)->batch);
}

// --- the type -----------------------------------------------------------------------------------------------------------------

static PyGetSetDef properties[] = {
    {"closed", get_closed, NULL, "Whether the batch was closed.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef methods[] = {
    {"_join", (PyCFunction)(void (*)(void))join, METH_VARARGS | METH_KEYWORDS, NULL},
    {"_cancel", cancel, METH_VARARGS, NULL},
    {"_has_ended", has_ended, METH_VARARGS, NULL},
    {"_take", take, METH_VARARGS, NULL},
    {"_step", step, METH_NOARGS, NULL},
    {"_run", run, METH_NOARGS, NULL},
    {"close", close_batch, METH_NOARGS, "Ends all sequences and forgets their results; BusyError while a step goes on."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Many generations on one model at once."},
    {Py_tp_new, create},
    {Py_tp_dealloc, deallocate},
    {Py_tp_traverse, traverse},
    {Py_tp_clear, clear},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {0, NULL},
};

static PyType_Spec spec = {.name = "cairn._native.Batch",
                           .basicsize = sizeof(batch_object),
                           .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                           .slots = slots};

bool crn_py_batch_initialize(PyObject *module) { return crn_py_add_type(module, &spec, &crn_py.batch_type); }
