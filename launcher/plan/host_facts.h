// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What is known about one machine (HostFacts), and what is wrong with it (Finding). The start,
// --dry-run and `cpprunctl doctor` use the same facts and findings; each collects only what it
// needs. Pure: io/host.h collects the facts.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/devices.h"
#include "proto/clock.h"

namespace cpprun {

// A file system, in bytes.
struct Disk {
  std::string path;
  std::uint64_t size = 0;
  std::uint64_t free = 0;  // available to this user
  std::string refusal;     // why it cannot be written to; empty: it can
  friend bool operator==(const Disk&, const Disk&) = default;
};

// Limits of one process or one user; nullopt: unlimited.
struct Limits {
  std::optional<std::uint64_t> open_files;    // hard limit: cpprun raises its own to it
  std::optional<std::uint64_t> locked_bytes;  // soft limit
  std::optional<std::uint64_t> processes;     // soft limit
  friend bool operator==(const Limits&, const Limits&) = default;
};

// What can be read of workers that hang (launcher/hang), and what permits it.
struct StackSources {
  std::string python;               // of workers; "3.14.0t" is free-threaded; empty: there is none
  std::string torch;                // of its PyTorch; empty: it has none
  bool has_py_spy = false;          // on PATH
  std::string libdw_refusal;        // why it cannot be loaded; empty: it can
  std::string ptrace_refusal;       // why not even a child can be traced; empty: it can
  std::optional<int> ptrace_scope;  // Yama's; nullopt: it restricts nothing, or not this user
  friend bool operator==(const StackSources&, const StackSources&) = default;
};

struct HostFacts {
  std::string host;     // the host's own name
  std::string version;  // of the cpprunctl that reports this
  std::string cpprun;   // output of its `cpprun --version`; empty: no cpprun
  std::string network;  // equal on hosts that share a network stack
  GpuCounts gpus;
  std::string missing_gpus;  // missing_gpus(); usually empty
  bool has_infiniband = false;
  Limits limits;
  Disk shared_memory;
  Disk temporary;
  // Only in an examination of hosts (launcher/doctor).
  std::optional<StackSources> stacks = {};
  // By the host's own clock, when it received the question and when it answered.
  WallTime asked{};
  WallTime answered{};
  int port = 0;  // where it listens; 0: nowhere
  std::string why_no_port;
  std::string greeting;  // what it sends to each client that connects
  friend bool operator==(const HostFacts&, const HostFacts&) = default;
};

struct Finding {
  std::string host;  // the host to fix, as given by the user
  std::string what;  // a clause
  std::string hint;  // also a clause; may be empty
  friend bool operator==(const Finding&, const Finding&) = default;
};

// The problems that one machine shows by itself: its GPUs, limits and disks. `host`: its name in
// the findings.
std::vector<Finding> own_findings(const HostFacts& facts, const std::string& host);

// Whether one of these is about its GPUs.
bool lacks_gpus(const HostFacts& facts);

// "64.0 MiB". For memory, which is at least mebibytes: "64 MiB" or "1.5 GiB".
std::string size_text(std::uint64_t bytes);
std::string memory_text(double bytes);

}  // namespace cpprun
