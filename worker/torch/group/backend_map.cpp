// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/backend_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace cpprun {
namespace {

constexpr const char* forms = "use gloo, nccl, mpi or cpu:gloo,cuda:nccl";

std::optional<Carrier> carrier_of(std::string_view name) {
  if (name == "gloo") return Carrier::gloo;
  if (name == "nccl") return Carrier::nccl;
  if (name == "mpi") return Carrier::mpi;
  return std::nullopt;
}

Result<DeviceCarrier> parse_pair(const std::string& text, const std::string& pair) {
  const std::size_t colon = pair.find(':');
  if (colon == std::string::npos) {
    return failure(fmt::format("backend {} mixes the two forms: {}", text, forms));
  }
  const std::string device = pair.substr(0, colon);
  const auto carrier = carrier_of(std::string_view(pair).substr(colon + 1));
  if (!carrier) {
    return failure(fmt::format("unknown backend {}: {}", pair.substr(colon + 1), forms));
  }
  if (device != "cpu" && device != "cuda") {
    return failure(fmt::format("device {} of backend {} is neither cpu nor cuda", device, text));
  }
  if (device == "cpu" && *carrier == Carrier::nccl) {
    return failure(fmt::format("backend {}: nccl cannot use CPU tensors: {}", text, forms));
  }
  if (device == "cuda" && *carrier == Carrier::mpi) {
    return failure(fmt::format("backend {}: mpi cannot use GPU tensors: {}", text, forms));
  }
  return DeviceCarrier{device, *carrier};
}

Result<BackendMap> parse_pairs(const std::string& text) {
  BackendMap map;
  std::size_t at = 0;
  while (at <= text.size()) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    auto pair = parse_pair(text, text.substr(at, comma - at));
    if (!pair) return tl::unexpected<Error>(pair.error());
    for (const DeviceCarrier& before : map) {
      if (before.device == pair->device) {
        return failure(fmt::format("backend {} lists {} twice", text, pair->device));
      }
    }
    map.push_back(*pair);
    at = comma + 1;
  }
  return map;
}

}  // namespace

Result<BackendMap> parse_backend(const std::string& text, const CarriersBuilt& built) {
  BackendMap map;
  if (text.empty()) {
    map = {{"cpu", Carrier::gloo}, {"cuda", built.nccl ? Carrier::nccl : Carrier::gloo}};
  } else if (text.find(':') != std::string::npos || text.find(',') != std::string::npos) {
    auto pairs = parse_pairs(text);
    if (!pairs) return pairs;
    map = *pairs;
  } else if (text == "gloo") {
    map = {{"cpu", Carrier::gloo}, {"cuda", Carrier::gloo}};
  } else if (text == "nccl") {
    map = {{"cuda", Carrier::nccl}};
  } else if (text == "mpi") {
    map = {{"cpu", Carrier::mpi}};
  } else {
    return failure(fmt::format("unknown backend {}: {}", text, forms));
  }
  for (const DeviceCarrier& each : map) {
    if (each.carrier == Carrier::nccl && !built.nccl) {
      return failure(fmt::format(
          "backend {} needs nccl, and this LibTorch was built without CUDA: use gloo, or build "
          "against a LibTorch for CUDA",
          text));
    }
    if (each.carrier == Carrier::mpi && !built.mpi) {
      return failure(fmt::format(
          "backend {} needs MPI, but cpprun was built without it: install an MPI with its headers "
          "(Debian: libopenmpi-dev) and build cpprun again, or use gloo",
          text));
    }
  }
  return map;
}

bool carries(const BackendMap& map, const std::string& device, Carrier carrier) {
  return std::find(map.begin(), map.end(), DeviceCarrier{device, carrier}) != map.end();
}

Carrier main_carrier(const BackendMap& map) {
  if (carries(map, "cuda", Carrier::nccl)) return Carrier::nccl;
  return carries(map, "cpu", Carrier::mpi) ? Carrier::mpi : Carrier::gloo;
}

bool meets_by_joining(const BackendMap& map, bool gloo_lazy) {
  if (carries(map, "cpu", Carrier::mpi)) return true;
  return carries(map, "cpu", Carrier::gloo) && !gloo_lazy;
}

std::vector<BackendPlan> plan_backends(const BackendMap& map) {
  std::vector<BackendPlan> plans;
  for (const DeviceCarrier& each : map) {
    const auto same = std::find_if(plans.begin(), plans.end(), [&each](const BackendPlan& plan) {
      return plan.carrier == each.carrier;
    });
    if (same != plans.end()) {
      same->devices.push_back(each.device);
    } else {
      plans.push_back({each.carrier, {each.device}});
    }
  }
  return plans;
}

const char* name_of(Carrier carrier) {
  switch (carrier) {
    case Carrier::gloo:
      return "gloo";
    case Carrier::nccl:
      return "nccl";
    case Carrier::mpi:
      return "mpi";
  }
  return "";
}

std::string to_text(const BackendMap& map) {
  std::string text;
  for (const DeviceCarrier& each : map) {
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", each.device, name_of(each.carrier));
  }
  return text;
}

}  // namespace cpprun
