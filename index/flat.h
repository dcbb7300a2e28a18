// index=flat: every row is compared. Exact; keeps nothing but the vectors.
// papers/faiss-gpu-2017 §5.1.
#pragma once

#include "index/index.h"

namespace warplite::index {

Kind flat_kind();

}  // namespace warplite::index
