// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Parses the backend text of torch.distributed (`gloo`, `nccl`, `mpi`, `cpu:gloo,cuda:nccl`): which
// backend carries the tensors of which device. Does not depend on LibTorch.

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

// The backends of this build besides gloo.
struct CarriersBuilt {
  bool nccl = false;
  bool mpi = false;
};

// Empty `text` selects the default: gloo, and nccl for GPU tensors where LibTorch has it.
Result<BackendMap> parse_backend(const std::string& text, const CarriersBuilt& built);

// Whether joining proves that all ranks have joined: yes for mpi, and for gloo unless it connects
// lazily; no for nccl, which connects on first use.
bool meets_by_joining(const BackendMap& map, bool gloo_lazy);

bool carries(const BackendMap& map, const std::string& device, Carrier carrier);

// The group's representative: nccl if the group has it, else the backend of the CPU tensors.
Carrier main_carrier(const BackendMap& map);

// How to create one backend. The first of its devices names its keys in the store.
struct BackendPlan {
  Carrier carrier = Carrier::gloo;
  std::vector<std::string> devices;
  friend bool operator==(const BackendPlan&, const BackendPlan&) = default;
};

// One backend per carrier, as in Python. All ranks of a group must follow this rule.
std::vector<BackendPlan> plan_backends(const BackendMap& map);

const char* name_of(Carrier carrier);
std::string to_text(const BackendMap& map);

}  // namespace cpprun
