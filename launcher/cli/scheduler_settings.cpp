// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/scheduler_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>

#include "launcher/cli/flags.h"
#include "proto/worker_contract.h"

namespace cpprun {

namespace {

template <class T>
bool is_said(const Flag<T>& flag) {
  return flag.given && !flag.text.empty();
}

bool is_said_on(const Flag<bool>& flag) {
  return flag.given && flag.text != "false" && flag.text != "0";
}

// Host and port joined as --rdzv-endpoint takes them.
std::string endpoint_text(const std::string& host, const std::string& port) {
  const bool v6 = host.find(':') != std::string::npos && !host.starts_with('[');
  return v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

class Teller {
 public:
  Teller(const SchedulerFacts& facts, const Flags& flags, const CommandLine& line,
         Declaration& declaration, Diagnostics& diagnostics)
      : facts_(facts),
        flags_(flags),
        line_(line),
        declaration_(declaration),
        diagnostics_(diagnostics) {}

  std::vector<std::string> tell() {
    const auto range = is_said(flags_.nnodes) ? node_range(flags_.nnodes.text) : NodeRange{};
    if (!range) return {};  // the error is reported elsewhere
    const bool typed = is_said(flags_.nnodes);
    const bool alone = !typed && meets_at_any_port();
    if (!alone && (!typed || range->highest > 1)) {
      notes_ = facts_.notes;
      for (const auto& mistake : facts_.diagnostics) {
        // The user has configured this node's position, so a problem in the scheduler's task layout
        // is only worth a note.
        is_placed() ? notes_.push_back(mistake) : complain(mistake);
      }
    }
    nodes_ = typed ? range->highest : facts_.nodes && !alone ? facts_.nodes->value : 1;
    // A script may start one step per node of a job. A step does not know about the others.
    const bool is_a_part = typed && facts_.nodes && facts_.nodes->value < range->lowest;
    if (is_a_part) tell_of_a_part(facts_.nodes->value);
    if (nodes_ > 1) {
      if (!typed)
        tell("nnodes", fmt::format("{} nodes", nodes_), std::to_string(nodes_),
             facts_.nodes->source);
      if (!is_a_part) tell_place(typed);
      if (!is_a_part) tell_meeting();
    }
    if (facts_.job && !is_said(flags_.rdzv_id) && !is_a_part) {
      declare("rdzv-id", facts_.job->value, facts_.job->source);
      if (nodes_ > 1) taken_.push_back(fmt::format("job {}", facts_.job->value));
    }
    tell_workers();
    // Only one node prints this: there may be thousands.
    if (!taken_.empty() && (nodes_ == 1 || !facts_.node_rank || facts_.node_rank->value == 0)) {
      notes_.insert(notes_.begin(),
                    fmt::format("settings from {}: {}; use --no-scheduler to ignore them",
                                facts_.name, fmt::join(taken_, ", ")));
    }
    return std::move(notes_);
  }

 private:
  void complain(std::string sentence) {
    diagnostics_.add(Diagnostics::before_flags, std::move(sentence));
  }

  void declare(std::string_view flag, std::string text, std::string source) {
    declaration_.tell(*declaration_.find(flag), std::move(text), SettingOrigin::scheduler,
                      std::move(source));
  }

  void tell(std::string_view flag, const std::string& words, std::string text,
            const std::string& source) {
    declare(flag, std::move(text), source);
    taken_.push_back(fmt::format("{} ({})", words, source));
  }

  // Whether the user gave the number of nodes, this node's rank, and the meeting place.
  bool is_placed() const {
    return is_said(flags_.nnodes) && is_said(flags_.node_rank) &&
           (is_said(flags_.master_addr) || is_said(flags_.rdzv_endpoint));
  }

  // The scheduler started cpprun on too few nodes. This is an error if nodes of other steps have no
  // way to find these.
  void tell_of_a_part(int started) {
    if (!facts_.diagnostics.empty()) return;  // the count is of tasks, not nodes
    const bool can_be_found =
        is_said(flags_.node_rank) || is_said(flags_.master_addr) || is_said(flags_.rdzv_endpoint);
    const auto fact = fmt::format("{}={}, but {} started cpprun on {} node{} ({})",
                                  flags_.nnodes.source, flags_.nnodes.text, facts_.name, started,
                                  started == 1 ? "" : "s", facts_.nodes->source);
    if (can_be_found) {
      notes_.push_back(fmt::format("warning: {}; the job waits for the other nodes", fact));
    } else {
      diagnostics_.add(
          flags_.nnodes.place,
          fmt::format("{}\n  hint: start cpprun on that many nodes, or remove --nnodes", fact));
    }
  }

  // A port of 0 is torchrun's way of running a single node: other nodes could not know the port.
  bool meets_at_any_port() const {
    return is_said(flags_.rdzv_endpoint) ? flags_.rdzv_endpoint.text.ends_with(":0")
                                         : flags_.master_port.text == "0";
  }

  // Sets the rank of this node.
  void tell_place(bool typed) {
    const auto& rank = facts_.node_rank;
    if (!rank) return;
    if (typed && facts_.nodes && facts_.nodes->value > nodes_) {
      notes_.push_back(fmt::format("{}={}, but {} started cpprun on more nodes: {} ({})",
                                   flags_.nnodes.source, flags_.nnodes.text, facts_.name,
                                   facts_.nodes->value, facts_.nodes->source));
      return;
    }
    if (!is_said(flags_.node_rank)) {
      return tell("node-rank", fmt::format("node rank {}", rank->value),
                  std::to_string(rank->value), rank->source);
    }
    if (flags_.node_rank.text == std::to_string(rank->value)) return;
    notes_.push_back(fmt::format(
        "{}={}, but this is node {} according to {}; did the job script expand ${} to the same "
        "value for all nodes?\n  hint: remove the flag",
        flags_.node_rank.source, flags_.node_rank.text, rank->value, rank->source, rank->source));
  }

  // Sets where nodes meet.
  void tell_meeting() {
    if (is_said(flags_.master_addr) || is_said(flags_.rdzv_endpoint)) return;
    const auto* variable = find_variable(line_.environment, contract::master_addr);
    const bool by_variable = variable != nullptr && !variable->empty();
    if (!by_variable && !facts_.master) return complain(no_master());
    const std::string host = by_variable ? *variable : facts_.master->value;
    const std::string source =
        by_variable ? std::string(contract::master_addr) : facts_.master->source;
    if (!by_variable && !facts_.doubt.empty()) notes_.push_back(facts_.doubt);
    const auto port = port_to_meet();
    const auto words = fmt::format("master {}", endpoint_text(host, port));
    // torchrun's two ways: the coordinator runs on the node of rank 0, or on the machine with that
    // name.
    const bool by_name = is_said(flags_.rdzv_backend) ? flags_.rdzv_backend.text == "c10d"
                                                      : !by_variable && !facts_.master_is_first;
    if (!by_name) {
      if (!flags_.master_port.given) declare("master-port", port, source);
      return tell("master-addr", words, host, source);
    }
    declare("rdzv-backend", "c10d", source);
    tell("rdzv-endpoint", words, endpoint_text(host, port), source);
  }

  std::string port_to_meet() const {
    if (is_said(flags_.master_port)) return flags_.master_port.text;
    const auto* variable = find_variable(line_.environment, contract::master_port);
    if (variable != nullptr && !variable->empty()) return *variable;
    constexpr int torchruns = 29500;
    return std::to_string(facts_.port ? facts_.port->value : torchruns);
  }

  std::string no_master() const {
    if (!facts_.no_master.empty()) {
      return facts_.no_master + ", or use --master-addr=HOST, the same on every node";
    }
    return fmt::format(
        "{} does not provide the host of node 0\n  hint: use --master-addr=HOST, the same on every "
        "node",
        facts_.name);
  }

  // Sets one worker per GPU of the task.
  void tell_workers() {
    if (is_said(flags_.nproc_per_node)) return;
    const bool visible =
        find_variable(line_.environment, contract::cuda_visible_devices) != nullptr;
    const bool said = facts_.gpus && !visible;
    const int gpus = said ? facts_.gpus->value : line_.count_devices();
    if (gpus < 1) return;
    tell("nproc-per-node", fmt::format("{} workers, one per GPU", gpus), std::to_string(gpus),
         said      ? facts_.gpus->source
         : visible ? std::string(contract::cuda_visible_devices)
                   : "this machine's devices");
  }

  const SchedulerFacts& facts_;
  const Flags& flags_;
  const CommandLine& line_;
  Declaration& declaration_;
  Diagnostics& diagnostics_;
  int nodes_ = 1;
  std::vector<std::string> taken_;
  std::vector<std::string> notes_;
};

}  // namespace

std::vector<std::string> tell_scheduler(const SchedulerFacts& facts, const Flags& flags,
                                        const CommandLine& line, Declaration& declaration,
                                        Diagnostics& diagnostics) {
  if (is_said_on(flags.standalone) || is_said_on(flags.no_scheduler)) return {};
  return Teller(facts, flags, line, declaration, diagnostics).tell();
}

}  // namespace cpprun
