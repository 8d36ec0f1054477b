// The kernels' `format` argument, 0 to 3. The lanes of a warp branch on it together.
#pragma once

#include "code_types.h"

enum Format : u32 { FORMAT_E4M3 = 0, FORMAT_E5M2 = 1, FORMAT_INT8 = 2, FORMAT_AUTO = 3 };

// Either E4M3 or INT8, block by block.
struct Auto {};
