#include "engines/llm/vision.h"

#include <string.h>

#include "base/alloc.h"
#include "base/context.h"
#include "base/status.h"
#include "base/trace.h"
#include "engines/vision/image.h"

const char *cairn_image_formats(void) { return crn_image_formats(); }

cairn_status crn_vision_open(cairn_context *context, const cairn_bundle_vision *config, cairn_model *model, crn_vision **out_vision) {
  crn_vision *v;
  CRN_TRY(crn_alloc_zero(&context->allocator, sizeof *v, &v));
  if (pthread_mutex_init(&v->lock, NULL)) {
    crn_free(&context->allocator, v, sizeof *v);
    return CRN_FAIL(OUT_OF_MEMORY, "no memory for a lock");
  }
  v->context = context;
  v->config = *config;
  v->model = model;
  cairn_model_retain(model);
  *out_vision = v;
  return CAIRN_OK;
}

void crn_vision_close(crn_vision *v) {
  if (!v) return;
  for (size_t i = 0; i < v->images.size; i++) cairn_ndarray_release(v->images.items[i].features);
  crn_vec_free(&v->context->allocator, &v->images);
  if (v->encode) cairn_function_release(v->encode);
  if (v->project) cairn_function_release(v->project);
  cairn_model_release(v->model);
  pthread_mutex_destroy(&v->lock);
  crn_free(&v->context->allocator, v, sizeof *v);
}

// --- the vision function ----------------------------------------------------------------------------------------------

static bool has_function(const cairn_model *model, const char *name) {
  for (int i = 0; i < cairn_model_function_count(model); i++) {
    if (strcmp(cairn_model_function_info(model, i)->name, name) == 0) return true;
  }
  return false;
}

static cairn_status check_one(const cairn_function_info *f) {
  if (f->n_inputs == 1 && f->n_outputs >= 1 && !f->n_states) return CAIRN_OK;
  return CRN_FAIL(UNSUPPORTED, "vision function '%s' has %d inputs, %d outputs and %d states: expected one input and one output", f->name,
                  f->n_inputs, f->n_outputs, f->n_states);
}

static cairn_status prepare(crn_vision *v) {
  if (v->encode) return CAIRN_OK;
  cairn_function *encode, *project = NULL;
  bool is_split = has_function(v->model, "encode_image");
  const char *name = is_split ? "encode_image" : has_function(v->model, "main") ? "main" : cairn_model_function_info(v->model, 0)->name;
  CRN_TRY(cairn_model_function(v->model, name, &encode));
  cairn_status status = check_one(cairn_function_describe(encode));
  if (status == CAIRN_OK && is_split && has_function(v->model, "project")) {
    status = cairn_model_function(v->model, "project", &project);
    if (status == CAIRN_OK) status = check_one(cairn_function_describe(project));
  }
  if (status != CAIRN_OK) {
    cairn_function_release(encode);
    if (project) cairn_function_release(project);
    return status;
  }
  v->encode = encode;
  v->project = project;
  return CAIRN_OK;
}

static cairn_status run_one(cairn_function *f, cairn_ndarray *input, cairn_ndarray **out) {
  const cairn_function_info *info = cairn_function_describe(f);
  const cairn_named_array given = {info->inputs[0].name, input};
  const cairn_run_args args = {.inputs = &given, .n_inputs = 1};
  cairn_outputs *outputs;
  CRN_TRY(cairn_function_run(f, &args, &outputs));
  cairn_status status = cairn_outputs_take(outputs, info->outputs[0].name, out);
  cairn_outputs_destroy(outputs);
  return status;
}

static cairn_status check_features(const crn_vision *v, const cairn_ndarray *features) {
  const int64_t *shape = cairn_ndarray_shape(features), n = v->config.image_token_count;
  int rank = cairn_ndarray_rank(features);
  bool is_right = (rank == 3 && shape[0] == 1 && shape[1] == n) || (rank == 2 && shape[0] == n);
  if (is_right && cairn_ndarray_is_contiguous(features)) return CAIRN_OK;
  return CRN_FAIL(INCOMPATIBLE, "the vision function gives %lld rows of rank %d; vision.image_token_count of the metadata is %lld",
                  (long long)(rank >= 2 ? shape[rank - 2] : 0), rank, (long long)n);
}

static cairn_status encode(crn_vision *v, cairn_ndarray *pixels, cairn_ndarray **out_features) {
  cairn_ndarray *features;
  const int64_t start = crn_trace_begin(v->context);
  CRN_TRY(prepare(v));
  // What one function gives goes to the next as it is.
  CRN_TRY(run_one(v->encode, pixels, &features));
  if (v->project) {
    cairn_ndarray *projected;
    cairn_status status = run_one(v->project, features, &projected);
    cairn_ndarray_release(features);
    CRN_TRY(status);
    features = projected;
  }
  cairn_status status = check_features(v, features);
  if (status != CAIRN_OK) {
    cairn_ndarray_release(features);
    return status;
  }
  v->n_encoded++;
  CRN_TRACE_END(v->context, start, "engine", NULL, "Encode image %lld", (long long)v->n_encoded);
  *out_features = features;
  return CAIRN_OK;
}

// --- pictures -----------------------------------------------------------------------------------------------------------

static cairn_status pixels_of_picture(const crn_vision *v, const cairn_image *image, float *out) {
  const cairn_allocator *a = &v->context->allocator;
  crn_image picture;
  if (image->path) {
    CRN_TRY(crn_image_read(a, image->path, &picture));
  } else {
    CRN_TRY(crn_image_create(a, image->width, image->height, &picture));
    memcpy(picture.rgb, image->rgb, (size_t)(image->width * image->height) * 3);
  }
  cairn_status status = crn_image_pixels(&picture, &v->config, out);
  crn_image_free(&picture);
  return status;
}

static cairn_status check_forms(const cairn_image *image, int i) {
  int n = (image->path != NULL) + (image->rgb != NULL) + (image->pixel_values != NULL);
  if (n == 1) return CAIRN_OK;
  return CRN_FAIL(INVALID_ARGUMENT, "image %d is given in %d forms; exactly one of path, rgb and pixel_values is expected", i, n);
}

// The pixel values as an array of f32, whatever the form.
static cairn_status load_pixels(const crn_vision *v, const cairn_image *image, cairn_ndarray **out) {
  const int64_t size = v->config.image_size, shape[] = {1, 3, size, size};
  CRN_TRY(cairn_ndarray_create(v->context, CAIRN_F32, shape, 4, out));
  float *data = cairn_ndarray_mutable_data(*out);
  cairn_status status;
  if (!image->pixel_values) {
    status = pixels_of_picture(v, image, data);
  } else if (cairn_ndarray_dtype(image->pixel_values) != CAIRN_F32 || cairn_ndarray_count(image->pixel_values) != 3 * size * size) {
    status = CRN_FAIL(INVALID_ARGUMENT, "pixel values must be float32 of the shape [1, 3, %lld, %lld]", (long long)size, (long long)size);
  } else {
    status = cairn_ndarray_read(image->pixel_values, data, (size_t)(3 * size * size) * sizeof *data);
  }
  if (status != CAIRN_OK) cairn_ndarray_release(*out);
  return status;
}

// Moves an image to the end of the list, where the last used ones are.
static void touch(crn_vision *v, size_t i) {
  crn_vision_image image = v->images.items[i];
  memmove(v->images.items + i, v->images.items + i + 1, (v->images.size - 1 - i) * sizeof image);
  v->images.items[v->images.size - 1] = image;
}

// Forgets the images that were not used for longest, but none that a prompt uses.
static void forget_oldest(crn_vision *v) {
  size_t n_unused = 0, n = 0;
  for (size_t i = 0; i < v->images.size; i++) n_unused += v->images.items[i].n_uses == 0;
  for (size_t i = 0; i < v->images.size; i++) {
    crn_vision_image *image = &v->images.items[i];
    if (image->n_uses == 0 && n_unused-- > CRN_VISION_KEPT_IMAGES) {
      cairn_ndarray_release(image->features);
    } else {
      v->images.items[n++] = *image;
    }
  }
  v->images.size = n;
}

static cairn_status check_numbers(const crn_vision *v) {
  if (v->next_number < INT32_MAX / v->config.image_token_count - 1) return CAIRN_OK;
  return CRN_FAIL(OUT_OF_RANGE, "%d images were used with this engine; open it again for more", v->next_number);
}

// The number of a picture: that of an equal one, or a new one.
static cairn_status add_image(crn_vision *v, const cairn_image *image, int i, int32_t *out_number) {
  crn_vision_image fresh = {.number = v->next_number};
  cairn_ndarray *pixels;
  CRN_TRY(check_forms(image, i));
  CRN_TRY(load_pixels(v, image, &pixels));
  cairn_status status = crn_sha256(cairn_ndarray_data(pixels), (size_t)cairn_ndarray_count(pixels) * sizeof(float), fresh.digest);
  for (size_t k = 0; status == CAIRN_OK && k < v->images.size; k++) {
    if (memcmp(v->images.items[k].digest, fresh.digest, sizeof fresh.digest) != 0) continue;
    *out_number = v->images.items[k].number;
    touch(v, k);
    cairn_ndarray_release(pixels);
    return CAIRN_OK;
  }
  if (status == CAIRN_OK) status = check_numbers(v);
  if (status == CAIRN_OK) status = encode(v, pixels, &fresh.features);
  cairn_ndarray_release(pixels);
  CRN_TRY(status);
  status = crn_vec_push(&v->context->allocator, &v->images, fresh);
  if (status != CAIRN_OK) {
    cairn_ndarray_release(fresh.features);
    return status;
  }
  *out_number = v->next_number++;
  return CAIRN_OK;
}

// --- places -------------------------------------------------------------------------------------------------------------

int32_t crn_vision_token_of(const crn_vision *v, int32_t number, int64_t row) {
  return (int32_t)(-1 - ((int64_t)number * v->config.image_token_count + row));
}

int32_t crn_vision_token(const crn_vision *v) { return v ? (int32_t)v->config.image_token_id : 0; }

static size_t count_places(const crn_vision *v, const int32_t *ids, size_t n) {
  size_t count = 0;
  for (size_t i = 0; i < n; i++) count += ids[i] == v->config.image_token_id;
  return count;
}

// Writes the prompt with the tokens of images; every place stands for `per_place` of them.
static void write_places(const crn_vision *v, const int32_t *numbers, const int32_t *ids, size_t n, int64_t per_place, int32_t *out) {
  const int64_t count = v->config.image_token_count;
  int64_t at = 0;  // tokens of images so far
  for (size_t i = 0; i < n; i++) {
    if (ids[i] != v->config.image_token_id) {
      *out++ = ids[i];
      continue;
    }
    for (int64_t k = 0; k < per_place; k++, at++) *out++ = crn_vision_token_of(v, numbers[at / count], at % count);
  }
}

static cairn_status place(crn_vision *v, const int32_t *numbers, int n, int32_t **ids, size_t *n_ids, size_t *capacity) {
  const size_t places = count_places(v, *ids, *n_ids), all = (size_t)(n * v->config.image_token_count);
  if (places != (size_t)n && places != all) {
    return CRN_FAIL(INVALID_ARGUMENT,
                    "found %zu image placeholder tokens, expected %d (one for each image) or %zu. Check the prompt template.", places, n,
                    all);
  }
  const int64_t per_place = places == all ? 1 : v->config.image_token_count;
  const size_t total = *n_ids - places + all;
  int32_t *out;
  if (!total) return CAIRN_OK;
  CRN_TRY(crn_alloc_array(&v->context->allocator, total, sizeof *out, &out));
  write_places(v, numbers, *ids, *n_ids, per_place, out);
  crn_free(&v->context->allocator, *ids, *capacity * sizeof **ids);
  *ids = out;
  *n_ids = *capacity = total;
  return CAIRN_OK;
}

static crn_vision_image *find_image(const crn_vision *v, int32_t number) {
  for (size_t i = v->images.size; i-- > 0;) {
    if (v->images.items[i].number == number) return &v->images.items[i];
  }
  return NULL;
}

int32_t crn_vision_number(const crn_vision *v, int32_t token, int64_t *out_row) {
  const int64_t place_in_all = -1 - (int64_t)token;
  *out_row = place_in_all % v->config.image_token_count;
  return (int32_t)(place_in_all / v->config.image_token_count);
}

// Counts the uses of the images of a prompt up or down, once for each first row among its tokens.
static void count_uses(crn_vision *v, const int32_t *ids, size_t n, int by) {
  for (size_t i = 0; i < n; i++) {
    int64_t row;
    if (ids[i] >= 0) continue;
    crn_vision_image *image = find_image(v, crn_vision_number(v, ids[i], &row));
    if (image && row == 0) image->n_uses += by;
  }
}

static cairn_status place_locked(crn_vision *v, const cairn_image *images, int n, int32_t *numbers, int32_t **ids, size_t *n_ids,
                                 size_t *capacity) {
  cairn_status status = CAIRN_OK;
  int n_added = 0;
  for (; n_added < n && status == CAIRN_OK; n_added++) {
    status = add_image(v, &images[n_added], n_added, &numbers[n_added]);
    if (status != CAIRN_OK) {
      crn_note(status, "image %d", n_added);
      break;
    }
    // Later images of the same prompt must not push it out.
    find_image(v, numbers[n_added])->n_uses++;
  }
  if (status == CAIRN_OK) status = place(v, numbers, n, ids, n_ids, capacity);
  if (status == CAIRN_OK) count_uses(v, *ids, *n_ids, 1);
  for (int i = 0; i < n_added; i++) find_image(v, numbers[i])->n_uses--;
  forget_oldest(v);
  return status;
}

cairn_status crn_vision_place(crn_vision *v, const cairn_image *images, int n, int32_t **ids, size_t *n_ids, size_t *capacity) {
  int32_t *numbers;
  if (n < 0 || n > 4096) return CRN_FAIL(INVALID_ARGUMENT, "%d images; 0 to 4096 are accepted", n);
  CRN_TRY(crn_alloc_array(&v->context->allocator, (size_t)n + 1, sizeof *numbers, &numbers));
  pthread_mutex_lock(&v->lock);
  cairn_status status = place_locked(v, images, n, numbers, ids, n_ids, capacity);
  pthread_mutex_unlock(&v->lock);
  crn_free(&v->context->allocator, numbers, ((size_t)n + 1) * sizeof *numbers);
  return status;
}

void crn_vision_release(crn_vision *v, const int32_t *ids, size_t n) {
  pthread_mutex_lock(&v->lock);
  count_uses(v, ids, n, -1);
  pthread_mutex_unlock(&v->lock);
}

static cairn_status fill_locked(const crn_vision *v, const int32_t *tokens, int64_t n, cairn_ndarray *embeds) {
  const int64_t width = cairn_ndarray_shape(embeds)[2];
  const size_t row_bytes = (size_t)width * cairn_dtype_bytes(cairn_ndarray_dtype(embeds));
  char *to = cairn_ndarray_mutable_data(embeds);
  for (int64_t i = 0; i < n; i++) {
    if (tokens[i] >= 0) continue;
    int64_t row;
    const crn_vision_image *image = find_image(v, crn_vision_number(v, tokens[i], &row));
    if (!image) return CRN_FAIL(FAILED_PRECONDITION, "the image of token %lld is not kept any more: give it again", (long long)i);
    const cairn_ndarray *f = image->features;
    if (cairn_ndarray_dtype(f) != cairn_ndarray_dtype(embeds) || cairn_ndarray_shape(f)[cairn_ndarray_rank(f) - 1] != width) {
      return CRN_FAIL(INCOMPATIBLE, "image features are %s of width %lld, embeddings %s of width %lld",
                      cairn_dtype_name(cairn_ndarray_dtype(f)), (long long)cairn_ndarray_shape(f)[cairn_ndarray_rank(f) - 1],
                      cairn_dtype_name(cairn_ndarray_dtype(embeds)), (long long)width);
    }
    memcpy(to + (size_t)i * row_bytes, (const char *)cairn_ndarray_data(f) + (size_t)row * row_bytes, row_bytes);
  }
  return CAIRN_OK;
}

cairn_status crn_vision_fill(crn_vision *v, const int32_t *tokens, int64_t n, cairn_ndarray *embeds) {
  pthread_mutex_lock(&v->lock);
  cairn_status status = fill_locked(v, tokens, n, embeds);
  pthread_mutex_unlock(&v->lock);
  return status;
}

// --- features from elsewhere --------------------------------------------------------------------------------------------

cairn_status crn_vision_get(crn_vision *v, int32_t number, crn_vision_image *out_image) {
  pthread_mutex_lock(&v->lock);
  const crn_vision_image *image = find_image(v, number);
  if (image) {
    *out_image = *image;
    cairn_ndarray_retain(image->features);
  }
  pthread_mutex_unlock(&v->lock);
  return image ? CAIRN_OK : CRN_FAIL(FAILED_PRECONDITION, "image %d of the sequence is not kept any more", number);
}

static cairn_status put_locked(crn_vision *v, const unsigned char *digest, cairn_ndarray *features, int32_t *out_number) {
  for (size_t k = 0; k < v->images.size; k++) {
    if (memcmp(v->images.items[k].digest, digest, CRN_SHA256_BYTES) != 0) continue;
    *out_number = v->images.items[k].number;
    touch(v, k);
    return CAIRN_OK;
  }
  CRN_TRY(check_numbers(v));
  crn_vision_image fresh = {.number = v->next_number, .features = features};
  memcpy(fresh.digest, digest, sizeof fresh.digest);
  CRN_TRY(crn_vec_push(&v->context->allocator, &v->images, fresh));
  cairn_ndarray_retain(features);
  *out_number = v->next_number++;
  return CAIRN_OK;
}

cairn_status crn_vision_put(crn_vision *v, const unsigned char digest[CRN_SHA256_BYTES], cairn_ndarray *features, int32_t *out_number) {
  pthread_mutex_lock(&v->lock);
  cairn_status status = put_locked(v, digest, features, out_number);
  pthread_mutex_unlock(&v->lock);
  return status;
}
