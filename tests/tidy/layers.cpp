// SPDX-License-Identifier: BSD-3-Clause
#include "tests/tidy/layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace cpprun::tidy {

namespace {

constexpr std::array<std::string_view, 5> rooms = {"proto", "rendezvous", "launcher", "worker",
                                                   "tests"};

bool may_see(std::string_view room, std::string_view other) {
  if (room == other || other == "proto" || room == "tests") return true;
  return room == "launcher" && other == "rendezvous";
}

// A folder and how high it stands. What is in none of them, the root of a room, stands below all.
struct Layer {
  std::string_view folder;
  int height;
};

constexpr std::array layers = {
    Layer{"proto/secure/", 1},       Layer{"launcher/plan/", 1},
    Layer{"launcher/scheduler/", 1}, Layer{"launcher/workers/", 2},
    Layer{"launcher/output/", 3},    Layer{"launcher/failure/", 4},
    Layer{"launcher/report/", 5},    Layer{"launcher/cli/", 5},
    Layer{"launcher/agent/", 6},     Layer{"launcher/control/", 6},
    Layer{"rendezvous/client/", 1},  Layer{"rendezvous/job/", 1},
    Layer{"rendezvous/store/", 1},   Layer{"rendezvous/status/", 2},
    Layer{"rendezvous/embed/", 2},   Layer{"rendezvous/coordinator/", 3},
    Layer{"rendezvous/daemon/", 4},  Layer{"worker/torch/", 1},
    Layer{"worker/torch/group/", 2}, Layer{"worker/torch/collectives/", 3},
    Layer{"worker/torch/files/", 4}, Layer{"worker/torch/data/", 5},
    Layer{"worker/torch/optim/", 5}, Layer{"worker/torch/ddp/", 6},
    Layer{"worker/examples/", 7},    Layer{"launcher/fanout/", 4},
    Layer{"launcher/preview/", 7},   Layer{"launcher/doctor/", 5},
    Layer{"rendezvous/etcd/", 1},
};

// The innermost folder that the path is in.
Layer layer_of(std::string_view path) {
  Layer found{"", 0};
  for (const auto& layer : layers) {
    const bool inner = layer.folder.size() > found.folder.size();
    if (inner && path.starts_with(layer.folder)) found = layer;
  }
  return found;
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
  if (own.folder == theirs.folder || theirs.height < own.height) return std::nullopt;
  const auto own_name = own.folder.empty() ? room : own.folder;
  return Violation{
      source.path, line, fmt::format("{} includes from {}", own_name, theirs.folder),
      "arrows within a room point downwards (tests/tidy/layers.cpp): move what both need "
      "below both"};
}

}  // namespace cpprun::tidy
