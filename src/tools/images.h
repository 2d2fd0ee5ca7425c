/// Images on the command line: picture files, or prepared pixel values (.safetensors, .npy).
#ifndef CRN_TOOLS_IMAGES_H
#define CRN_TOOLS_IMAGES_H

#include "base/vec.h"
#include "cairn/llm.h"
#include "tools/tool.h"

/// Images of one prompt, in order, as cairn_generate_options takes them. Zero-initialise.
typedef struct crn_images {
  CRN_VEC(cairn_image) list;
  CRN_VEC(cairn_ndarray *) arrays;  ///< pixel values that were read
} crn_images;

/// Adds a file. `path` is borrowed. Errors: NOT_FOUND, and for pixel values those of reading them; pictures are read by the engine.
cairn_status crn_images_add(crn_tool *t, crn_images *images, const char *path);
void crn_images_clear(crn_images *images);
void crn_images_free(crn_images *images);

#endif
