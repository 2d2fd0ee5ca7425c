/// The binary interface of DLPack 1.x (and of the unversioned form before it), as far as tensors in main memory need it.
#ifndef CAIRN_PYTHON_DLPACK_H
#define CAIRN_PYTHON_DLPACK_H

#include <stdint.h>

typedef struct dl_device {
  int32_t type;  ///< 1 = main memory, 3 = main memory pinned for CUDA
  int32_t id;
} dl_device;

enum {
  DL_INT = 0,
  DL_UINT = 1,
  DL_FLOAT = 2,
  DL_BFLOAT = 4,
  DL_COMPLEX = 5,
  DL_BOOL = 6,
  DL_F8E4M3FN = 10,
  DL_F8E5M2 = 12,
  DL_F8E8M0FNU = 14
};

typedef struct dl_dtype {
  uint8_t code, bits;
  uint16_t lanes;
} dl_dtype;

typedef struct dl_tensor {
  void *data;
  dl_device device;
  int32_t ndim;
  dl_dtype dtype;
  int64_t *shape;
  int64_t *strides;  ///< in elements; NULL = contiguous
  uint64_t byte_offset;
} dl_tensor;

/// In capsules named "dltensor".
typedef struct dl_managed {
  dl_tensor tensor;
  void *manager;
  void (*deleter)(struct dl_managed *self);
} dl_managed;

enum { DL_FLAG_READ_ONLY = 1, DL_FLAG_COPIED = 2 };

/// In capsules named "dltensor_versioned".
typedef struct dl_managed_versioned {
  uint32_t major, minor;
  void *manager;
  void (*deleter)(struct dl_managed_versioned *self);
  uint64_t flags;
  dl_tensor tensor;
} dl_managed_versioned;

#endif
