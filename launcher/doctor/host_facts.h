// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a host says of itself and of its way to the others.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/gpus.h"
#include "proto/clock.h"

namespace cpprun::doctor {

// A file system, in bytes.
struct Disk {
  std::string path;
  std::uint64_t size = 0;
  std::uint64_t free = 0;  // for this user
  std::string refusal;     // why nothing can be written there; empty: something can
  friend bool operator==(const Disk&, const Disk&) = default;
};

// Of one process or one user; nothing: there is none.
struct Limits {
  std::optional<std::uint64_t> open_files;    // the hard one: cpprun raises itself to it
  std::optional<std::uint64_t> locked_bytes;  // the soft one
  std::optional<std::uint64_t> processes;     // the soft one
  friend bool operator==(const Limits&, const Limits&) = default;
};

struct HostFacts {
  std::string host;     // its name of itself
  std::string version;  // of the cpprunctl that says this
  std::string cpprun;   // what its cpprun says as --version; empty: there is none
  std::string network;  // of hosts that share one network stack the same
  GpuCounts gpus;
  std::string missing_gpus;  // what cpprun would say of them; mostly empty
  bool has_infiniband = false;
  Limits limits;
  Disk shared_memory;
  Disk temporary;
  // Of its own clock, when it was asked and when it answered.
  WallTime asked{};
  WallTime answered{};
  int port = 0;  // where it listens; 0: nowhere
  std::string why_no_port;
  std::string greeting;  // what it says to whoever comes there
  friend bool operator==(const HostFacts&, const HostFacts&) = default;
};

// A host as the others are to look for it.
struct Target {
  int number = 0;
  std::string name;     // to be resolved
  std::string address;  // at which cpprun would have it meet; may be a name as well
  int port = 0;         // 0: it listens nowhere
  std::string greeting;
  friend bool operator==(const Target&, const Target&) = default;
};

enum class Reached { yes, refused, silent, unresolved, stranger, failed, not_tried };

// One of the others, seen from a host.
struct Dialed {
  int number = 0;                      // of the other
  std::vector<std::string> addresses;  // what its name stands for here
  std::string why_unresolved;          // empty: it is resolved
  Reached reached = Reached::not_tried;
  std::string where;  // the address and the port that were dialed
  std::string why;    // what the kernel said, where it was not reached
  friend bool operator==(const Dialed&, const Dialed&) = default;
};

// Whom a host looks for: its followers in the list, which is taken for a ring, as many as
// `others_max`, and the first host, where the nodes of a job meet by default.
inline constexpr int others_max = 32;
std::vector<Target> others_of(int number, const std::vector<Target>& all);

}  // namespace cpprun::doctor
