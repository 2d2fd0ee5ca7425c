#include "base/task.h"

// Failures are records of the thread where they happen: the text goes with the status.
static void *task_main(void *user) {
  crn_task *t = user;
  t->status = t->run(t->user);
  if (t->status != CAIRN_OK) cairn_last_error_text(t->message, sizeof t->message);
  return NULL;
}

void crn_task_start(crn_task *t, cairn_status (*run)(void *user), void *user) {
  *t = (crn_task){.run = run, .user = user};
  t->has_thread = pthread_create(&t->thread, NULL, task_main, t) == 0;
  if (!t->has_thread) task_main(t);
}

cairn_status crn_task_wait(crn_task *t) {
  if (t->has_thread) pthread_join(t->thread, NULL);
  t->has_thread = false;
  t->run = NULL;
  if (t->status != CAIRN_OK) crn_error_restore(t->status, t->message);
  return t->status;
}
