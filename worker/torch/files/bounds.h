// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The limits of files with tensors.

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace cpprun::bounds {

using namespace std::chrono_literals;

// The JSON header of a safetensors file, some hundred bytes per tensor: the largest models have a
// hundred thousand. The format's own reader accepts 100 MB; a hostile header of that size would
// cost gigabytes, one of this size less than 64 MB and a second.
inline constexpr std::uint64_t safetensors_head_bytes_max = 12 * 1024 * 1024;
// Strings in its metadata: a few for each optimizer parameter. Each costs ten times its shortest
// form.
inline constexpr std::size_t safetensors_texts_max = 65'536;
// Dimensions of one tensor there; LibTorch's own limit.
inline constexpr std::size_t safetensors_dimensions_max = 64;
// The pickle of a .pth file, in bytes and in values: a thousand layers with optimizer state need a
// hundredth of it.
inline constexpr std::uint64_t pickle_bytes_max = 64 * 1024 * 1024;
inline constexpr std::size_t pickle_values_max = 4'000'000;
// Nesting of dicts, lists and tuples.
inline constexpr int pickle_depth_max = 100;
// Checkpoints of one directory that ranks report to each other when they choose one; older ones are
// ignored.
inline constexpr int checkpoints_offered_max = 64;
// How long ranks wait for the rank that writes a checkpoint: a terabyte to a busy file server.
inline constexpr std::chrono::milliseconds checkpoint_write_wait_max = 60min;
// Bytes per broadcast of a checkpoint: enough to be fast, and little compared with a model.
inline constexpr std::int64_t checkpoint_broadcast_bytes = 64 * 1024 * 1024;

}  // namespace cpprun::bounds
