// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Operations whose names differ between LibTorch's versions. Only this directory adapts to
// versions, by what compiles and not by version numbers. The functions are templates, because only
// then is a branch with missing names not compiled.

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace cpprun::compat {

template <class Group>
auto all_gather_single(Group& group, at::Tensor& output, at::Tensor& input) {
  if constexpr (requires { group.all_gather_single(output, input); }) {
    return group.all_gather_single(output, input);
  } else {
    return group._allgather_base(output, input);
  }
}

template <class Group, class Options>
auto reduce_scatter_single(Group& group, at::Tensor& output, at::Tensor& input,
                           const Options& options) {
  if constexpr (requires { group.reduce_scatter_single(output, input, options); }) {
    return group.reduce_scatter_single(output, input, options);
  } else {
    return group._reduce_scatter_base(output, input, options);
  }
}

using Splits = std::vector<std::int64_t>;

template <class Group>
auto all_to_all_single(Group& group, at::Tensor& output, at::Tensor& input, Splits output_splits,
                       Splits input_splits) {
  if constexpr (requires { group.all_to_all_single(output, input, output_splits, input_splits); }) {
    return group.all_to_all_single(output, input, output_splits, input_splits);
  } else {
    return group.alltoall_base(output, input, output_splits, input_splits);
  }
}

// Whether the group has a backend for tensors on this type of device.
template <class Group>
bool carries(const Group& group, c10::DeviceType type) {
  const auto devices = group.getDeviceTypes();
  return std::any_of(devices.begin(), devices.end(),
                     [type](const c10::Device& device) { return device.type() == type; });
}

// Destroys the communicators before CUDA shuts down; older versions do that in their destructors.
template <class Group>
void shutdown(Group& group) {
  if constexpr (requires { group.shutdown(); }) group.shutdown();
}

}  // namespace cpprun::compat
