// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The hosts a person has named: on the command line, or in a file as Open MPI and DeepSpeed have
// them. Ranks of nodes follow their order.

#include <tl/expected.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/fanout/message.h"
#include "launcher/text_file.h"
#include "proto/environment.h"

namespace cpprun {

struct Host {
  std::string name;          // as the remote shell takes it: "gpu1", "user@gpu1", "10.0.0.5"
  std::optional<int> slots;  // workers there, where they were said
  friend bool operator==(const Host&, const Host&) = default;
};

// The hosts, or every mistake as a clause that says where it is.
using HostList = tl::expected<std::vector<Host>, std::vector<std::string>>;

// "a,b:4,c". An IPv6 address with slots is written in brackets: "[fd77::1]:4".
HostList parse_hosts(std::string_view text);

// A host a line, "gpu1" or "gpu1 slots=4", also "gpu1:4"; # begins a comment. `path` is quoted in
// complaints.
HostList parse_host_file(std::string_view text, std::string_view path);

}  // namespace cpprun

// --hosts, --hostfile and --remote-shell: which hosts are meant, and how a command gets there.

namespace cpprun::fanout {

// --hosts: a list, or "slurm" for those of the allocation.
HostList hosts_of(const std::string& text, const Environment& environment);

// --hostfile; `source` is how the flag was given, for complaints.
HostList hosts_in_file(const std::string& path, const std::string& source,
                       const TextFile& read_file);

// Numbered in their order.
std::vector<Member> members_of(const std::vector<Host>& hosts);

// The words that run a command on {host}: those of --remote-shell, srun for the hosts of an
// allocation, or else ssh. None where --remote-shell names no program.
std::vector<std::string> remote_shell(const std::optional<std::string>& given,
                                      const std::optional<std::string>& hosts);

}  // namespace cpprun::fanout
