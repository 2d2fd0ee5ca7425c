/// Attention that a program spells out in products, a mask and a softmax, on the attention kernels.
#ifndef CRN_BACKEND_CPU_FUSED_ATTENTION_H
#define CRN_BACKEND_CPU_FUSED_ATTENTION_H

#include "backend/backend.h"
#include "program/infer/infer.h"

/// What a mask leaves to see: int64 [3] = first visible position, end of the visible ones, and 1 when these are
/// all that rows need: every row sees one, or those that see none are not used.
/// Operand 0: the mask, its positions along `position_axis` (counted from the last dimension).
typedef struct crn_fused_extent {
  int position_axis;
} crn_fused_extent;

enum { CRN_EXTENT_VALUES = 3 };

cairn_status crn_infer_fused_extent(const crn_infer_args *args);
cairn_status crn_fused_extent_run(const crn_kernel_args *args);

/// How many of the leading dimensions each of an operand's own stands for; 0 dimensions: as they are.
typedef struct crn_fused_leading {
  int n;
  uint8_t parts[CAIRN_MAX_RANK];
} crn_fused_leading;

typedef enum crn_fused_mask { CRN_FUSED_NO_MASK, CRN_FUSED_MASK_ADDED, CRN_FUSED_MASK_CHOSEN } crn_fused_mask;

/// softmax(q · k · scale with mask) · v. Operands: q [.., rows, d], k [.., d, positions], v [.., positions, dv], whose leading dimensions
/// broadcast; with a mask, that (its last dimensions are rows and positions) and its extent. A boolean mask chooses the score where it is
/// true, else `masked`.
typedef struct crn_fused_attention {
  crn_fused_mask mask;
  double scale, masked;
  bool is_widened;  ///< the program computes scores and weights of 16-bit operands in f32
  /// Where operands have the leading dimensions (batch, groups, heads of a group) together in different ways: their sizes as they are
  /// furthest apart. 0 dimensions: all have them in the same way.
  int n_leading;
  int64_t leading[CAIRN_MAX_RANK];
  crn_fused_leading query, key, value, mask_leading, out;
  bool has_plain_keys;             ///< k is [.., positions, d]
  const crn_attr *attrs;           ///< of scaled_dot_product_attention
  const char *const *input_names;  ///< of it, with the mask
} crn_fused_attention;

cairn_status crn_infer_fused_attention(const crn_infer_args *args);
cairn_status crn_fused_attention_run(const crn_kernel_args *args);

/// The same for heads that lie next to each other along one dimension of each operand, whose other dimensions but that of rows or positions
/// are 1. Operands: q, k, v, the mask (added, the same for all heads) and its extent. Axes count from the first dimension.
typedef struct crn_fused_heads {
  int64_t heads, groups;
  int q_row, q_feature, k_position, k_feature, v_position, v_feature, mask_row, mask_position, out_row, out_feature;
  const crn_attr *attrs;
  const char *const *input_names;
} crn_fused_heads;

cairn_status crn_infer_fused_heads(const crn_infer_args *args);
cairn_status crn_fused_heads_run(const crn_kernel_args *args);

/// For the kernel of scaled_dot_product_attention, in crn_kernel_args.fused: positions outside of [low, high) are excluded for every row,
/// and every row sees some position. Then only these are looked at.
typedef struct crn_attention_extent {
  int64_t low, high;
} crn_attention_extent;

#endif
