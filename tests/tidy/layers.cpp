// SPDX-License-Identifier: BSD-3-Clause
#include "tests/tidy/layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

namespace cpprun::tidy {

namespace {

constexpr std::array<std::string_view, 5> rooms = {"proto", "rendezvous", "launcher", "worker",
                                                   "tests"};

bool may_see(std::string_view room, std::string_view other) {
  if (room == other || other == "proto" || room == "tests") return true;
  return room == "launcher" && other == "rendezvous";
}

// A directory, all that is below it included, and how high it stands. The root of a room, and its
// io/, stand below all.
struct Layer {
  std::string_view directory;
  int height;
};

constexpr std::array layers = {
    Layer{"proto/c10d/", 1},  // the lowest
    Layer{"proto/http/", 1},
    Layer{"proto/link/", 1},
    Layer{"proto/secure/", 1},
    Layer{"rendezvous/client/", 1},
    Layer{"rendezvous/etcd/", 1},
    Layer{"rendezvous/hang/", 1},
    Layer{"rendezvous/store/", 2},
    Layer{"rendezvous/embed/", 3},
    Layer{"rendezvous/job/", 2},
    Layer{"rendezvous/status/", 3},
    Layer{"rendezvous/coordinator/", 4},
    Layer{"rendezvous/daemon/", 5},
    Layer{"launcher/embed/", 1},
    Layer{"launcher/plan/", 1},
    Layer{"launcher/scheduler/", 1},
    Layer{"launcher/workers/", 2},
    Layer{"launcher/hang/", 3},
    Layer{"launcher/output/", 3},
    Layer{"launcher/failure/", 4},
    Layer{"launcher/fanout/", 4},
    Layer{"launcher/cli/", 5},
    Layer{"launcher/doctor/", 5},
    Layer{"launcher/report/", 5},
    Layer{"launcher/agent/", 6},
    Layer{"launcher/control/", 6},
    Layer{"launcher/preview/", 7},
    Layer{"worker/env/", 1},
    Layer{"worker/torch/compat/", 1},
    Layer{"worker/torch/gloo_shim/", 1},
    Layer{"worker/torch/group/", 2},
    Layer{"worker/torch/collectives/", 3},
    Layer{"worker/torch/files/", 4},
    Layer{"worker/torch/data/", 5},
    Layer{"worker/torch/optim/", 5},
    Layer{"worker/torch/ddp/", 6},
    Layer{"worker/examples/", 7},
};

Layer layer_of(std::string_view path) {
  for (const auto& layer : layers) {
    if (path.starts_with(layer.directory)) return layer;
  }
  return {"", 0};
}

// In the root of a room, or in its io/.
bool in_root(std::string_view path) {
  const auto below = directory_of(path).substr(room_of(path).size());
  return below == "/" || below == "/io/";
}

}  // namespace

std::optional<Violation> judge_layers(const Source& source, int line, std::string_view included) {
  const auto room = room_of(source.path);
  const auto other = room_of(included);
  if (std::find(rooms.begin(), rooms.end(), other) == rooms.end()) {
    return Violation{source.path, line,
                     fmt::format("\"{}\" does not say which room it is from", included),
                     "include project headers by full path, libraries in angle brackets"};
  }
  if (!may_see(room, other)) {
    return Violation{source.path, line, fmt::format("{} includes from {}", room, other),
                     "the direction is proto ← rendezvous ← launcher, and worker sees only proto: "
                     "move what both need to proto"};
  }
  if (room != other || is_program(source.path)) return std::nullopt;
  const auto own = layer_of(source.path);
  const auto theirs = layer_of(included);
  if (own.directory == theirs.directory || theirs.height < own.height) return std::nullopt;
  const auto own_name = own.directory.empty() ? room : own.directory;
  return Violation{
      source.path, line, fmt::format("{} includes from {}", own_name, theirs.directory),
      "arrows within a room point downwards (tests/tidy/layers.cpp): move what both need "
      "below both"};
}

std::vector<Violation> check_layers(const Tree& tree) {
  std::vector<Violation> violations;
  std::set<std::string_view> unknown;
  for (const auto& source : tree) {
    if (!is_cpp(source.path) || !is_product(source.path)) continue;
    if (layer_of(source.path).height > 0 || in_root(source.path)) continue;
    const auto directory = directory_of(source.path);
    if (!unknown.insert(directory).second) continue;
    violations.push_back({std::string(directory), 0, "this directory has no layer",
                          "add it to the table in tests/tidy/layers.cpp"});
  }
  for (const auto& layer : layers) {
    const bool exists = std::any_of(tree.begin(), tree.end(), [&layer](const Source& source) {
      return is_cpp(source.path) && source.path.starts_with(layer.directory);
    });
    if (exists) continue;
    violations.push_back({"tests/tidy/layers.cpp", 0,
                          fmt::format("the layer {} has no source file", layer.directory),
                          "rename it as the directory was renamed, or remove it"});
  }
  return violations;
}

}  // namespace cpprun::tidy
