#include "engines/vision/image.h"

#include <string.h>

#include "base/alloc.h"
#include "base/status.h"

cairn_status crn_image_create(const cairn_allocator *allocator, int64_t width, int64_t height, crn_image *out_image) {
  *out_image = (crn_image){.allocator = allocator};
  if (width < 1 || height < 1 || width > CRN_IMAGE_MAX_SIDE || height > CRN_IMAGE_MAX_SIDE || width * height > CRN_IMAGE_MAX_PIXELS) {
    return CRN_FAIL(OUT_OF_RANGE, "a picture of %lld x %lld pixels; sides of 1 to %d and at most %d pixels are accepted", (long long)width,
                    (long long)height, (int)CRN_IMAGE_MAX_SIDE, (int)CRN_IMAGE_MAX_PIXELS);
  }
  CRN_TRY(crn_alloc_zero(allocator, (size_t)(width * height) * 3, &out_image->rgb));
  out_image->width = width;
  out_image->height = height;
  return CAIRN_OK;
}

void crn_image_free(crn_image *image) {
  if (image->rgb) crn_free(image->allocator, image->rgb, (size_t)(image->width * image->height) * 3);
  *image = (crn_image){0};
}

// --- from pixels to values --------------------------------------------------------------------------------------------

// Pixels are told with 0 to 255, so 1/255 belongs to the scale; a factor that small already holds it.
static double scale_of(const cairn_bundle_vision *config) {
  return config->rescale_factor < 0.02 ? config->rescale_factor : config->rescale_factor / 255;
}

static void write_values(const crn_image *image, const cairn_bundle_vision *config, int64_t left, int64_t top, int64_t size, float *out) {
  const double scale = scale_of(config);
  for (int channel = 0; channel < 3; channel++) {
    const double mean = config->image_mean[channel], std = config->image_std[channel];
    for (int64_t y = 0; y < size; y++) {
      for (int64_t x = 0; x < size; x++) {
        int64_t sx = x - left, sy = y - top;
        bool is_inside = sx >= 0 && sy >= 0 && sx < image->width && sy < image->height;
        double pixel = is_inside ? image->rgb[(sy * image->width + sx) * 3 + channel] : 0;
        *out++ = (float)((pixel * scale - mean) / std);
      }
    }
  }
}

// The size whose shorter (or longer) side is `size`, the other in proportion.
static void fit(const crn_image *image, int64_t size, bool by_longer, int64_t *width, int64_t *height) {
  bool is_wide = image->width >= image->height;
  int64_t reference = is_wide == by_longer ? image->width : image->height;
  *width = (image->width * size + reference / 2) / reference;
  *height = (image->height * size + reference / 2) / reference;
  if (*width < 1) *width = 1;
  if (*height < 1) *height = 1;
}

cairn_status crn_image_pixels(const crn_image *image, const cairn_bundle_vision *config, float *out_pixels) {
  int64_t size = config->image_size, width = size, height = size;
  crn_image resized;
  if (config->image_strategy != CAIRN_IMAGE_STRETCH) fit(image, size, config->image_strategy == CAIRN_IMAGE_PAD, &width, &height);
  CRN_TRY(crn_image_resize(image, width, height, &resized));
  // The middle: of the square for a smaller picture, of the picture for a larger one.
  write_values(&resized, config, (size - width) / 2, (size - height) / 2, size, out_pixels);
  crn_image_free(&resized);
  return CAIRN_OK;
}
