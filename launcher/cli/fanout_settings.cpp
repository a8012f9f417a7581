// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/fanout_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "launcher/fanout/bootstrap.h"
#include "launcher/fanout/host_list.h"

namespace cpprun {

namespace {

// Flags that are used by the console only, or passed to each agent in another form.
constexpr std::array<std::string_view, 16> kept_flags = {
    "ship",        "dry-run", "json",         "hosts",       "hostfile",      "remote-shell",
    "export",      "nnodes",  "master-addr",  "master-port", "rdzv-endpoint", "rdzv-backend",
    "secret-file", "config",  "no-scheduler", "rdzv-conf"};

class FanoutReader {
 public:
  FanoutReader(Flags& flags, const CommandLine& line, Diagnostics& diagnostics)
      : flags_(flags), line_(line), diagnostics_(diagnostics) {}

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
    request.job.is_rehearsal = is_on(flags_.dry_run);
    if (request.job.is_rehearsal) {
      request.job.flags.insert(request.job.flags.end(), {"--dry-run", "--json"});
    }
    read_environment(request.job);
    read_shell(request.job);
    leave_to_agents();
    return request;
  }

 private:
  template <class T>
  void complain(const Flag<T>& flag, const std::string& text) {
    diagnostics_.add(flag.place, flag.source + text);
  }

  void read_hosts(fanout::Wanted& wanted) {
    if (flags_.hosts.given && flags_.hostfile.given) {
      complain(flags_.hostfile, " and --hosts exclude each other\n  hint: use only one");
    }
    const HostList hosts = flags_.hosts.value
                               ? fanout::hosts_of(*flags_.hosts.value, line_.environment)
                               : fanout::hosts_in_file(flags_.hostfile.value.value_or(""),
                                                       flags_.hostfile.source, line_.read_file);
    if (!hosts) {
      for (const auto& mistake : hosts.error()) {
        if (flags_.hosts.value)
          complain(flags_.hosts, ": " + mistake);
        else
          diagnostics_.add(flags_.hostfile.place, mistake);
      }
      return;
    }
    wanted.members = fanout::members_of(*hosts);
  }

  // --nnodes may set the minimum number of nodes; its maximum must match the number of hosts.
  void read_nodes(fanout::Request& request) {
    const int count = static_cast<int>(request.wanted.members.size());
    const auto range = flags_.nnodes.value.value_or(NodeRange{count, count});
    if (count > 0 && range.highest != count) {
      complain(flags_.nnodes,
               fmt::format("={} does not match {} host{}\n  hint: remove the flag, or set the "
                           "minimum number of nodes with --nnodes=MIN:{}",
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

  // Rejects flags that apply to a single node.
  void refuse_places() {
    const auto refuse = [&](const auto& flag, bool is_given, std::string_view cure) {
      if (is_given)
        complain(
            flag,
            fmt::format(" is for a single node, but --hosts starts all nodes\n  hint: {}", cure));
    };
    refuse(flags_.node_rank, flags_.node_rank.given,
           "remove the flag; ranks follow the order of the hosts");
    refuse(flags_.local_addr, flags_.local_addr.given, "remove the flag");
    refuse(flags_.standalone, is_on(flags_.standalone), "remove the flag");
    refuse(flags_.rdzv_endpoint, flags_.rdzv_endpoint.given, "use --master-addr and --master-port");
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
    job.shell = fanout::remote_shell(flags_.remote_shell.value, flags_.hosts.value);
    if (job.shell.empty()) complain(flags_.remote_shell, " is empty");
  }

  void leave_to_agents() {
    flags_.nnodes = {};
    flags_.master_addr = {};
    flags_.master_port = {};
    flags_.rdzv_backend = {};
    flags_.rdzv_endpoint = {};
    flags_.node_rank = {};
    // gpu, cpu and auto are counted on each host; a number can be checked here.
    const auto& workers = flags_.nproc_per_node.value.value_or("");
    if (workers == "gpu" || workers == "cpu" || workers == "auto") flags_.nproc_per_node = {};
  }

  Flags& flags_;
  const CommandLine& line_;
  Diagnostics& diagnostics_;
};

}  // namespace

std::optional<fanout::Request> fan_out_request(Flags& flags, const Declaration& declaration,
                                               const CommandLine& line, Diagnostics& diagnostics) {
  if (!flags.hosts.given && !flags.hostfile.given) {
    const auto complain = [&diagnostics](const auto& flag, bool is_given) {
      if (!is_given) return;
      diagnostics.add(flag.place, flag.source + " has no effect without --hosts or --hostfile");
    };
    complain(flags.remote_shell, flags.remote_shell.given);
    complain(flags.export_variables, flags.export_variables.given);
    complain(flags.ship, is_on(flags.ship));
    return std::nullopt;
  }
  return FanoutReader(flags, line, diagnostics).read(declaration);
}

}  // namespace cpprun
