/// Pictures: read from files, resized, and made into the pixel values a model takes.
#ifndef CRN_ENGINES_VISION_IMAGE_H
#define CRN_ENGINES_VISION_IMAGE_H

#include "cairn/bundle.h"

/// Rows of RGB bytes, top first. Owner: unique; crn_image_free.
typedef struct crn_image {
  const cairn_allocator *allocator;
  unsigned char *rgb;
  int64_t width, height;
} crn_image;

/// Sides a picture may have: larger ones are refused before memory is taken for them.
enum { CRN_IMAGE_MAX_SIDE = 32768, CRN_IMAGE_MAX_PIXELS = 1 << 28 };

cairn_status crn_image_create(const cairn_allocator *allocator, int64_t width, int64_t height, crn_image *out_image);
void crn_image_free(crn_image *image);

/// Reads PNG, JPEG (where built with the libraries for them) and binary PPM/PGM. Transparent parts are shown on white.
/// Errors: NOT_FOUND, IO, UNSUPPORTED (naming the formats of this build), CORRUPT, OUT_OF_MEMORY.
cairn_status crn_image_read(const cairn_allocator *allocator, const char *path, crn_image *out_image);
/// As crn_image_read for a file that is in memory. `name` is for messages.
cairn_status crn_image_decode(const cairn_allocator *allocator, const char *name, const void *data, size_t bytes, crn_image *out_image);
/// "PNG, JPEG and PPM", as far as this build has them.
const char *crn_image_formats(void);

/// Resizes with the bicubic filter (a = -0.5, widened when shrinking), in the fixed-point arithmetic that Pillow uses, so that
/// pixels equal those of preprocessors built on it.
cairn_status crn_image_resize(const crn_image *source, int64_t width, int64_t height, crn_image *out_image);

/// Resizes as the strategy says and writes (pixel * scale - mean) / std as [3, size, size] f32. For "pad" the bars are zero pixels.
cairn_status crn_image_pixels(const crn_image *image, const cairn_bundle_vision *config, float *out_pixels);

#endif
