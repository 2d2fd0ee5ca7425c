#include "tools/images.h"

#include <string.h>

#include "base/file.h"
#include "import/safetensors.h"
#include "tools/values.h"

static bool has_extension(const char *path, const char *extension) {
  size_t n = strlen(path), m = strlen(extension);
  return n >= m && strcmp(path + n - m, extension) == 0;
}

static cairn_status create_flat(crn_tool *t, const void *data, int64_t count, cairn_ndarray **out) {
  CRN_TRY(cairn_ndarray_create(t->context, CAIRN_F32, &count, 1, out));
  cairn_status status = cairn_ndarray_write(*out, data, (size_t)count * sizeof(float));
  if (status != CAIRN_OK) cairn_ndarray_release(*out);
  return status;
}

// --- .npy -------------------------------------------------------------------------------------------------------------

static cairn_status read_npy(crn_tool *t, const char *path, cairn_ndarray **out) {
  crn_file_map map;
  CRN_TRY(crn_file_map_open(path, &map));
  const unsigned char *d = (const unsigned char *)map.data;
  size_t start = 0;
  if (map.bytes >= 12 && memcmp(d, "\x93NUMPY", 6) == 0)
    start =
        d[6] == 1 ? 10 + (size_t)(d[8] | d[9] << 8) : 12 + ((size_t)d[8] | (size_t)d[9] << 8 | (size_t)d[10] << 16 | (size_t)d[11] << 24);
  bool is_right = start && start < map.bytes && (map.bytes - start) % sizeof(float) == 0 && memmem(d, start, "'<f4'", 5) &&
                  memmem(d, start, "'fortran_order': False", 22);
  cairn_status status = is_right ? create_flat(t, d + start, (int64_t)((map.bytes - start) / sizeof(float)), out)
                                 : CRN_FAIL(UNSUPPORTED, "%s: expected an .npy file of float32 ('<f4') in C order", path);
  crn_file_map_close(&map);
  return status;
}

// --- .safetensors -----------------------------------------------------------------------------------------------------

static cairn_status read_safetensors(crn_tool *t, const char *path, cairn_ndarray **out) {
  crn_safetensors *file;
  CRN_TRY(crn_safetensors_open(NULL, path, &file));
  const crn_safetensors_entry *e = crn_safetensors_find(file, "pixel_values");
  cairn_status status;
  if (!e) {
    status = CRN_FAIL(NOT_FOUND, "%s: there is no tensor 'pixel_values'", path);
  } else {
    const cairn_descriptor any = {.name = "pixel_values", .dtype = CAIRN_F32, .rank = e->tensor.rank};
    cairn_descriptor d = any;
    for (int i = 0; i < CAIRN_MAX_RANK; i++) d.interleave[i] = d.alignment[i] = 1;
    for (int i = 0; i < d.rank; i++) d.shape[i] = e->tensor.dims[i];
    status = crn_array_from_file(t->context, &d, &e->tensor, "the pixel values", out);
  }
  crn_safetensors_close(file);
  return status;
}

// --- both -------------------------------------------------------------------------------------------------------------

cairn_status crn_images_add(crn_tool *t, crn_images *images, const char *path) {
  cairn_image image = {.path = path};
  cairn_ndarray *array = NULL;
  CRN_TRY(crn_tool_open_context(t));
  if (!crn_file_exists(path)) return CRN_FAIL(NOT_FOUND, "image '%s': no such file", path);
  if (has_extension(path, ".npy")) {
    CRN_TRY(read_npy(t, path, &array));
  } else if (has_extension(path, ".safetensors")) {
    CRN_TRY(read_safetensors(t, path, &array));
  }
  if (array) image = (cairn_image){.pixel_values = array};
  cairn_status status = array ? crn_vec_push(crn_default_allocator(), &images->arrays, array) : CAIRN_OK;
  if (status != CAIRN_OK) {
    cairn_ndarray_release(array);
    return status;
  }
  return crn_vec_push(crn_default_allocator(), &images->list, image);
}

void crn_images_clear(crn_images *images) {
  for (size_t i = 0; i < images->arrays.size; i++) cairn_ndarray_release(images->arrays.items[i]);
  images->arrays.size = images->list.size = 0;
}

void crn_images_free(crn_images *images) {
  crn_images_clear(images);
  crn_vec_free(crn_default_allocator(), &images->arrays);
  crn_vec_free(crn_default_allocator(), &images->list);
}
