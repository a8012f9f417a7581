// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/fanout/host_choice.h"

#include <fmt/format.h>

#include "proto/host_list.h"
#include "proto/text.h"

namespace cpprun::fanout {

namespace {

constexpr std::string_view slurm_hosts = "slurm";

}  // namespace

HostList hosts_of(const std::string& text, const Environment& environment) {
  if (text != slurm_hosts) return parse_hosts(text);
  const auto* list = find_variable(environment, "SLURM_JOB_NODELIST");
  if (list == nullptr) {
    return tl::unexpected(std::vector<std::string>{
        "SLURM_JOB_NODELIST is not set; give --hosts=slurm inside of an allocation, by salloc or "
        "in a batch script"});
  }
  const auto names = expand_hosts(*list);
  if (!names) return tl::unexpected(std::vector<std::string>{names.error().reason});
  std::vector<Host> hosts;
  for (const auto& name : *names) hosts.push_back({name, std::nullopt});
  return hosts;
}

HostList hosts_in_file(const std::string& path, const std::string& source,
                       const TextFile& read_file) {
  const auto text = read_file(path);
  if (text) return parse_host_file(*text, path);
  return tl::unexpected(std::vector<std::string>{
      fmt::format("{}={} cannot be read: {}; give the path of a text file with a host a line",
                  source, path, text.error().reason)});
}

std::vector<Member> members_of(const std::vector<Host>& hosts) {
  std::vector<Member> members;
  for (const auto& host : hosts) {
    members.push_back({static_cast<int>(members.size()), host.name, host.slots.value_or(0)});
  }
  return members;
}

std::vector<std::string> remote_shell(const std::optional<std::string>& given,
                                      const std::optional<std::string>& hosts) {
  if (given) {
    std::vector<std::string> words;
    for (const auto word : split(*given, ' ')) {
      if (!trimmed(word).empty()) words.emplace_back(trimmed(word));
    }
    return words;
  }
  if (hosts == std::string(slurm_hosts)) {
    return {"srun", "--overlap", "--nodes=1", "--ntasks=1", "--nodelist={host}"};
  }
  return {"ssh", "-T", "-o", "BatchMode=yes", "{host}"};
}

}  // namespace cpprun::fanout
