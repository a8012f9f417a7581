// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// --hosts, --hostfile and --remote-shell: which hosts are meant, and how a command gets there.

#include <optional>
#include <string>
#include <vector>

#include "launcher/fanout/host_list.h"
#include "launcher/fanout/message.h"
#include "launcher/text_file.h"
#include "proto/environment.h"

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
