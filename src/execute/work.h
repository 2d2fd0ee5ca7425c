/// The order of work: which memory a piece of work reads and writes, and what it has to wait for.
///
/// Every run and every queued work of a context is in one list (crn_work_list) from its start, or its encoding, to its
/// end. Edges lead from earlier to later work, so there are no circles.
#ifndef CRN_EXECUTE_WORK_H
#define CRN_EXECUTE_WORK_H

#include "base/failure.h"
#include "tensor/ndarray.h"

typedef enum crn_access_kind {
  CRN_ACCESS_READ,
  CRN_ACCESS_WRITE,  ///< output views: what was there before does not matter
  CRN_ACCESS_UPDATE  ///< states: read and written
} crn_access_kind;

typedef struct crn_access {
  const char *begin, *end;  ///< bytes reached
  const char *name;
  crn_access_kind kind;
  bool is_dense;    ///< every byte in between is reached
  bool is_covered;  ///< while edges are looked for: what came earlier need not be looked at
} crn_access;

typedef enum crn_work_phase {
  CRN_WORK_WAITING,  ///< for earlier work
  CRN_WORK_READY,    ///< for a worker or for room in the function
  CRN_WORK_RUNNING,
  CRN_WORK_CANCELLED  ///< keeps its place until the work before it is done
} crn_work_phase;

typedef struct crn_work crn_work;

/// Lies in the later work, hangs in the list of the earlier one.
typedef struct crn_edge {
  crn_work *from, *to;
  struct crn_edge *next;
  bool is_data;  ///< a failure goes along
} crn_edge;

typedef struct crn_edges {
  crn_edge few[4];  ///< where the first ones lie: most work waits for no more
  crn_edge *items;  ///< NULL = there are none yet
  size_t size, capacity;
} crn_edges;

struct crn_work {
  crn_work *previous, *next;                // in the list of the context
  crn_work *stream_previous, *stream_next;  // in the list of the stream, while it has it
  cairn_stream *stream;                     ///< whose workers do it; NULL for runs of the caller, and once cancelled
  cairn_stream *owner;                      ///< whose wait reports its failure; NULL when there is none any more
  crn_work_phase phase;
  int64_t sequence;
  crn_access *accesses;
  int n_accesses;
  crn_edges edges;       ///< from earlier work
  crn_edge *dependents;  ///< to later work
  int n_pending;         ///< edges whose earlier work is not done
  cairn_status status;
  crn_failure *failure;  ///< of `status`, may be NULL
  bool is_acknowledged;  ///< its failure was reported: later work does not get it
  bool is_listed, is_failed_listed;
  bool is_mark;  ///< done when it is the first of its stream
  bool is_host;  ///< a run of the caller, on its thread
};

/// Describes the use of an array.
crn_access crn_access_of(const cairn_ndarray *array, const char *name, crn_access_kind kind);

/// Whether work, its callbacks or a queued call run on this thread: waiting could then never end.
bool crn_work_is_inside(void);
/// Work that `work` does itself is no conflict with it. Returns what was current before.
crn_work *crn_work_enter_thread(crn_work *work);
void crn_work_leave_thread(crn_work *before);
/// FAILED_PRECONDITION inside of work.
cairn_status crn_work_check_may_wait(const char *what);

// All that follows is called with the lock held.

/// Finds what `work` must wait for and what failure it gets, without entering it. Edges are allocated.
/// `out_conflict` (may be NULL) is the name of an array that other work uses, or NULL.
cairn_status crn_work_find_edges(cairn_context *context, crn_work *work, const char **out_conflict);
/// Frees the edges when they needed memory of their own. Needs no lock.
void crn_work_free_edges(cairn_context *context, crn_work *work);
/// One more edge, from the maker of a value.
cairn_status crn_work_add_data_edge(cairn_context *context, crn_work *work, crn_work *from);
/// Puts work with its edges at the end of the list. It is READY when it waits for nothing.
void crn_work_enter(crn_work_list *list, crn_work *work);
/// Takes work that is done out of the list, and lets go what waited for it. Work that is no longer needed is chained
/// through stream_next in front of `*dead`.
void crn_work_leave(crn_work_list *list, crn_work *work, crn_work **dead);
/// Failures of `owner` are over.
void crn_work_acknowledge(crn_work_list *list, const cairn_stream *owner, bool owner_ends, crn_work **dead);
/// Wakes threads of the caller that wait.
void crn_work_signal(crn_work_list *list);
/// Waits for a change.
void crn_work_await_change(crn_work_list *list);
/// Whether anybody uses memory that `access` conflicts with.
bool crn_work_is_used(const crn_work_list *list, const crn_access *access);

/// Wakes a worker of the stream (stream.c).
void crn_stream_wake(cairn_stream *stream);
/// Wakes workers of all streams: an invocation ended.
void crn_stream_wake_all(crn_work_list *list);

#endif
