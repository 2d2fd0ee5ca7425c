/// Log lines of a context. Cheap when the level is off: the text is not made.
#ifndef CRN_BASE_LOG_H
#define CRN_BASE_LOG_H

#include "cairn/context.h"

void crn_log(const cairn_context *context, cairn_log_level level, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#define CRN_WARN(context, ...) crn_log((context), CAIRN_LOG_WARNING, __VA_ARGS__)

#endif
