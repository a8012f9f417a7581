// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// How many GPUs a worker of this machine would see. CUDA itself is not asked: loading it takes
// longer than everything else cpprun does.

#include <string>
#include <vector>

#include "proto/environment.h"

namespace cpprun {

// `device_files` are the names in /dev. CUDA_VISIBLE_DEVICES hides some of the devices there, but
// adds none.
int count_devices(const std::vector<std::string>& device_files, const Environment& environment);

}  // namespace cpprun
