// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The hosts given by the user on the command line or in a file in the format of Open MPI and
// DeepSpeed. Node ranks follow their order.

#include <tl/expected.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/fanout/message.h"
#include "proto/environment.h"

namespace cpprun {

struct Host {
  std::string name;          // in the form for the remote shell: "gpu1", "user@gpu1", "10.0.0.5"
  std::optional<int> slots;  // number of workers, if given
  friend bool operator==(const Host&, const Host&) = default;
};

// The hosts, or all errors, each a clause with its location.
using HostList = tl::expected<std::vector<Host>, std::vector<std::string>>;

// "a,b:4,c". An IPv6 address with slots needs brackets: "[fd77::1]:4".
HostList parse_hosts(std::string_view text);

// One host per line: "gpu1", "gpu1 slots=4" or "gpu1:4"; # starts a comment. Errors quote `path`.
HostList parse_host_file(std::string_view text, std::string_view path);

}  // namespace cpprun

// --hosts, --hostfile and --remote-shell: which hosts to use, and how to run a command on them.

namespace cpprun::fanout {

// --hosts: a list, or "slurm" for the hosts of the allocation.
HostList hosts_of(const std::string& text, const Environment& environment);

// --hostfile; `source` is how the flag was given, for error messages.
HostList hosts_in_file(const std::string& path, const std::string& source,
                       const TextFile& read_file);

// Numbered in their order.
std::vector<Member> members_of(const std::vector<Host>& hosts);

// The command that runs a program on {host}: from --remote-shell, srun for the hosts of an
// allocation, or else ssh. Empty if --remote-shell names no program.
std::vector<std::string> remote_shell(const std::optional<std::string>& given,
                                      const std::optional<std::string>& hosts);

}  // namespace cpprun::fanout
