/// One function that runs in a thread of its own beside what its caller goes on with.
#ifndef CRN_BASE_TASK_H
#define CRN_BASE_TASK_H

#include <pthread.h>
#include <stdbool.h>

#include "base/status.h"

enum { CRN_TASK_MESSAGE = 512 };

/// Zeroed = nothing runs. It must not move until crn_task_wait has returned. Thread: one user at a time.
typedef struct crn_task {
  cairn_status (*run)(void *user);
  void *user;
  pthread_t thread;
  bool has_thread;
  cairn_status status;
  char message[CRN_TASK_MESSAGE];  ///< of a failure
} crn_task;

/// Begins run(user). Where the system has no thread to give, it runs now.
void crn_task_start(crn_task *task, cairn_status (*run)(void *user), void *user);
/// Waits until it has ended and returns its status, with its failure as this thread's. Only once for each start; OK without one.
cairn_status crn_task_wait(crn_task *task);

#endif
