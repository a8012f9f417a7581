// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/fanout_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "launcher/fanout/agent_words.h"
#include "launcher/fanout/host_list.h"
#include "proto/host_list.h"
#include "proto/text.h"

namespace cpprun {

namespace {

constexpr std::string_view slurm_hosts = "slurm";
// The console's own, or said to each agent in a way of its own.
constexpr std::array<std::string_view, 14> kept_flags = {
    "ship",        "hosts",       "hostfile",     "remote-shell",  "export",
    "nnodes",      "master-addr", "master-port",  "rdzv-endpoint", "rdzv-backend",
    "secret-file", "config",      "no-scheduler", "rdzv-conf"};

class Reader {
 public:
  Reader(Flags& flags, const CommandLine& line, Mistakes& mistakes)
      : flags_(flags), line_(line), mistakes_(mistakes) {}

  fanout::Request read(const Declaration& declaration) {
    fanout::Request request;
    read_hosts(request.wanted);
    read_nodes(request);
    refuse_places();
    request.wanted.address = flags_.master_addr.value.value_or("");
    request.wanted.port = flags_.master_port.value.value_or(0);
    request.job.ship = is_on(flags_.ship);
    request.job.conf = flags_.rdzv_conf.value.value_or("");
    for (auto& [flag, text] : declaration.given()) {
      const bool is_kept = std::ranges::find(kept_flags, flag->name) != kept_flags.end();
      const bool is_conf = flag->name == "rdzv-conf" && !request.job.elastic;
      if (is_kept && !is_conf) continue;
      request.job.flags.push_back(flag->takes_value() ? fmt::format("--{}={}", flag->name, text)
                                                      : "--" + flag->name);
    }
    request.job.flags.emplace_back("--no-scheduler");
    read_environment(request.job);
    read_shell(request.job);
    leave_to_agents();
    return request;
  }

 private:
  template <class T>
  void complain(const Flag<T>& flag, const std::string& text) {
    mistakes_.add(flag.place, flag.source + text);
  }

  void read_hosts(fanout::Wanted& wanted) {
    if (flags_.hosts.given && flags_.hostfile.given) {
      complain(flags_.hostfile, " and --hosts both name the hosts; leave one of them out");
    }
    const HostList hosts = flags_.hosts.value ? hosts_of(*flags_.hosts.value) : file_of();
    if (!hosts) {
      for (const auto& mistake : hosts.error()) {
        if (flags_.hosts.value)
          complain(flags_.hosts, ": " + mistake);
        else
          mistakes_.add(flags_.hostfile.place, mistake);
      }
      return;
    }
    for (const auto& host : *hosts) {
      wanted.members.push_back(
          {static_cast<int>(wanted.members.size()), host.name, host.slots.value_or(0)});
    }
  }

  HostList hosts_of(const std::string& text) {
    if (text != slurm_hosts) return parse_hosts(text);
    const auto* list = find_variable(line_.environment, "SLURM_JOB_NODELIST");
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

  HostList file_of() {
    const std::string& path = flags_.hostfile.value.value_or("");
    const auto text = line_.read_file(path);
    if (text) return parse_host_file(*text, path);
    return tl::unexpected(std::vector<std::string>{
        fmt::format("{}={} cannot be read: {}; give the path of a text file with a host a line",
                    flags_.hostfile.source, path, text.error().reason)});
  }

  // --nnodes may say how many of them are enough, and nothing else.
  void read_nodes(fanout::Request& request) {
    const int count = static_cast<int>(request.wanted.members.size());
    const auto range = flags_.nnodes.value.value_or(NodeRange{count, count});
    if (count > 0 && range.highest != count) {
      complain(flags_.nnodes, fmt::format("={} and {} host{} do not agree; leave it out, or write "
                                          "how many are enough: --nnodes=MIN:{}",
                                          flags_.nnodes.text, count, count == 1 ? "" : "s", count));
    }
    request.wanted.nodes_min = range.lowest;
    request.wanted.elastic = request.job.elastic = range.lowest < range.highest;
    if (request.job.elastic) {
      request.job.nodes = fmt::format("{}:{}", range.lowest, range.highest);
    } else if (count > 1) {
      request.job.nodes = fmt::format("{}", count);
    }
  }

  // What is of one node cannot be said to all of them at once.
  void refuse_places() {
    const auto refuse = [&](const auto& flag, bool is_given, std::string_view cure) {
      if (is_given)
        complain(flag, fmt::format(" is of one node, and --hosts starts all; {}", cure));
    };
    refuse(flags_.node_rank, flags_.node_rank.given, "ranks follow the order of the hosts");
    refuse(flags_.local_addr, flags_.local_addr.given, "leave it out");
    refuse(flags_.standalone, is_on(flags_.standalone), "leave it out");
    refuse(flags_.rdzv_endpoint, flags_.rdzv_endpoint.given,
           "--master-addr and --master-port say where they meet");
  }

  void read_environment(fanout::JobTerms& job) {
    auto passed =
        fanout::passed_environment(line_.environment, flags_.export_variables.value.value_or(""));
    if (passed)
      job.environment = *std::move(passed);
    else
      complain(flags_.export_variables, ": " + passed.error().reason);
  }

  void read_shell(fanout::JobTerms& job) {
    job.shell = {"ssh", "-T", "-o", "BatchMode=yes", "{host}"};
    if (flags_.hosts.value == std::string(slurm_hosts)) {
      job.shell = {"srun", "--overlap", "--nodes=1", "--ntasks=1", "--nodelist={host}"};
    }
    if (!flags_.remote_shell.value) return;
    job.shell.clear();
    for (const auto word : split(*flags_.remote_shell.value, ' ')) {
      if (!trimmed(word).empty()) job.shell.emplace_back(trimmed(word));
    }
    if (job.shell.empty()) complain(flags_.remote_shell, " names no program");
  }

  void leave_to_agents() {
    flags_.nnodes = {};
    flags_.master_addr = {};
    flags_.master_port = {};
    flags_.rdzv_backend = {};
    flags_.rdzv_endpoint = {};
    flags_.node_rank = {};
  }

  Flags& flags_;
  const CommandLine& line_;
  Mistakes& mistakes_;
};

}  // namespace

std::optional<fanout::Request> fan_out_request(Flags& flags, const Declaration& declaration,
                                               const CommandLine& line, Mistakes& mistakes) {
  if (!flags.hosts.given && !flags.hostfile.given) {
    const auto complain = [&mistakes](const auto& flag, bool is_given) {
      if (!is_given) return;
      mistakes.add(flag.place, flag.source + " has no effect without --hosts or --hostfile");
    };
    complain(flags.remote_shell, flags.remote_shell.given);
    complain(flags.export_variables, flags.export_variables.given);
    complain(flags.ship, is_on(flags.ship));
    return std::nullopt;
  }
  return Reader(flags, line, mistakes).read(declaration);
}

}  // namespace cpprun
