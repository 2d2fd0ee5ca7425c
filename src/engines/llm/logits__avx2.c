#define LOGITS_NAME(name) crn_logits_##name##__avx2
#include "engines/llm/logits_template.h"
