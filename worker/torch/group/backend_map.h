// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Which backend carries the tensors of which device, from the text that torch.distributed takes:
// `gloo`, `nccl`, `mpi`, `cpu:gloo,cuda:nccl`. Knows no LibTorch.

#include <string>
#include <vector>

#include "proto/result.h"

namespace cpprun {

enum class Carrier { gloo, nccl, mpi };

struct DeviceCarrier {
  std::string device;  // cpu or cuda
  Carrier carrier = Carrier::gloo;
  friend bool operator==(const DeviceCarrier&, const DeviceCarrier&) = default;
};

using BackendMap = std::vector<DeviceCarrier>;

// What this build has besides gloo.
struct CarriersBuilt {
  bool nccl = false;
  bool mpi = false;
};

// An empty text is the default: gloo, and for tensors on a GPU nccl where LibTorch has it.
Result<BackendMap> parse_backend(const std::string& text, const CarriersBuilt& built);

// Whether whoever has joined knows that everybody has: gloo connects all to all at once unless it
// is lazy, over mpi all meet, and nccl connects when it is first used.
bool meets_by_joining(const BackendMap& map, bool gloo_lazy);

bool carries(const BackendMap& map, const std::string& device, Carrier carrier);

// What a group is known by as a whole: nccl if it has it, else what carries the CPU's tensors.
Carrier main_carrier(const BackendMap& map);

// How one backend is made: the devices it serves, the first of which names its keys in the store.
struct BackendPlan {
  Carrier carrier = Carrier::gloo;
  std::vector<std::string> devices;
  friend bool operator==(const BackendPlan&, const BackendPlan&) = default;
};

// Python's rule, which all ranks of a group have to follow: one backend per carrier.
std::vector<BackendPlan> plan_backends(const BackendMap& map);

const char* name_of(Carrier carrier);
std::string to_text(const BackendMap& map);

}  // namespace cpprun
