/// oneDNN, loaded when it is first needed: what is found by name there, and the kernels made of it.
///
/// The library is optional twice: without its headers none of this is built (CAIRN_HAVE_ONEDNN is not defined), and without
/// libdnnl.so at run time, or with CAIRN_ONEDNN=off in the environment, the reference kernels do the work.
#ifndef CRN_BACKEND_CPU_ONEDNN_LIBRARY_H
#define CRN_BACKEND_CPU_ONEDNN_LIBRARY_H

#include "backend/backend.h"

#ifdef CAIRN_HAVE_ONEDNN
#include <oneapi/dnnl/dnnl.h>

typedef struct crn_onednn {
  dnnl_engine_t engine;
  void (*set_threads)(int);
  int (*get_threads)(void);
#define CRN_ONEDNN_FUNCTION(name) __typeof__(dnnl_##name) *name;
#include "backend/cpu/onednn/functions.def"
#undef CRN_ONEDNN_FUNCTION
} crn_onednn;

/// The loaded library, NULL when it is absent or switched off.
const crn_onednn *crn_onednn_get(void);
#endif

/// Whether the library is used.
bool crn_onednn_available(void);

/// Convolutions of f32 and bf16. Errors: UNSUPPORTED where the reference must do it (types, strides, small sizes).
cairn_status crn_onednn_conv(const crn_kernel_args *args);

#endif
