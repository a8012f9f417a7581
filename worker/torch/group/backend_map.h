// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Which backend carries the tensors of which device, from the text that torch.distributed takes:
// `gloo`, `nccl`, `cpu:gloo,cuda:nccl`. Knows no LibTorch.

#include <string>
#include <vector>

#include "proto/result.h"

namespace cpprun {

enum class Carrier { gloo, nccl };

struct DeviceCarrier {
  std::string device;  // cpu or cuda
  Carrier carrier = Carrier::gloo;
  friend bool operator==(const DeviceCarrier&, const DeviceCarrier&) = default;
};

using BackendMap = std::vector<DeviceCarrier>;

// An empty text is the default: gloo, and for tensors on a GPU nccl where LibTorch has it.
Result<BackendMap> parse_backend(const std::string& text, bool nccl_built);

// How one backend is made: the devices it serves, the first of which names its keys in the store.
struct BackendPlan {
  Carrier carrier = Carrier::gloo;
  std::vector<std::string> devices;
  friend bool operator==(const BackendPlan&, const BackendPlan&) = default;
};

// Python's rule, which all ranks of a group have to follow: one backend per carrier.
std::vector<BackendPlan> plan_backends(const BackendMap& map);

std::string to_text(const BackendMap& map);

}  // namespace cpprun
