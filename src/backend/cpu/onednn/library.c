#include "backend/cpu/onednn/library.h"

#ifdef CAIRN_HAVE_ONEDNN
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static crn_onednn g_library;
static bool g_loaded;
static pthread_once_t g_once = PTHREAD_ONCE_INIT;

// A function pointer comes out of dlsym as an object pointer.
static bool find(void *handle, const char *name, void *out_function) {
  void *p = dlsym(handle, name);
  if (p) memcpy(out_function, &p, sizeof p);
  return p != NULL;
}

static bool find_all(void *handle, crn_onednn *l) {
  bool all = true;
#define CRN_ONEDNN_FUNCTION(name) all = all && find(handle, "dnnl_" #name, (void *)&l->name);
#include "backend/cpu/onednn/functions.def"
#undef CRN_ONEDNN_FUNCTION
  // Threads are cairn's own: the library's runtime of choice is told to use one.
  return all && find(handle, "omp_set_num_threads", (void *)&l->set_threads) &&
         find(handle, "omp_get_max_threads", (void *)&l->get_threads);
}

static void load(void) {
  // Anything but "on" switches it off, a misspelt "off" as well.
  const char *setting = getenv("CAIRN_ONEDNN");
  if (setting && *setting && strcmp(setting, "on")) return;
  // The version the headers belong to; it stays loaded, for its threads could not be stopped.
  void *handle = dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!handle) return;
  crn_onednn l = {0};
  if (find_all(handle, &l) && l.engine_create(&l.engine, dnnl_cpu, 0) == dnnl_success) {
    g_library = l;
    g_loaded = true;
    return;
  }
  dlclose(handle);
}

const crn_onednn *crn_onednn_get(void) {
  pthread_once(&g_once, load);
  return g_loaded ? &g_library : NULL;
}

bool crn_onednn_available(void) { return crn_onednn_get() != NULL; }
#else
bool crn_onednn_available(void) { return false; }

cairn_status crn_onednn_conv(const crn_kernel_args *args) {
  return CRN_FAIL(UNSUPPORTED, "%s through oneDNN, which this build does not have", crn_op_info_of(args->id)->name);
}
#endif
