/// A failure that travels between threads: what the record of the failing thread said, kept in memory of its own.
#ifndef CRN_BASE_FAILURE_H
#define CRN_BASE_FAILURE_H

#include "base/alloc.h"

/// Owner: shared and counted. Thread: safe (immutable).
typedef struct crn_failure crn_failure;

/// Keeps this thread's last failure. NULL when there is no memory for it: the code alone is then what remains.
crn_failure *crn_failure_capture(const cairn_allocator *allocator);
/// NULL is allowed, and given back.
crn_failure *crn_failure_retain(crn_failure *failure);
void crn_failure_release(crn_failure *failure);

/// Makes it the last failure of this thread and returns `code`. `failure` NULL gives the text of the code.
cairn_status crn_failure_restore(const crn_failure *failure, cairn_status code);

#endif
