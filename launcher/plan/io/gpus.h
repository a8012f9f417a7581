// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// How many GPUs there are, by the kernel's files. No library of NVIDIA's is loaded: that takes
// longer than everything else cpprun does.

#include <string>

#include "launcher/plan/gpus.h"

namespace cpprun::io {

// `root`: where proc, sys and dev are, for tests.
GpuCounts count_gpus(const std::string& root = {});

}  // namespace cpprun::io
