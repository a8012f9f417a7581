// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Another program takes the place of this one in the same process: finding it, checking that it can
// continue (AgentUpgrade), executing it, and what that program finds.

#include <asio/io_context.hpp>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/io/preparation.h"
#include "launcher/agent/io/upgrade_state.h"
#include "launcher/io/disk_helper.h"
#include "proto/environment.h"
#include "proto/result.h"
#include "rendezvous/io/helper_processes.h"

namespace cpprun::io {

// The program that this process was started with, by its path, where another version may be by now.
std::string own_program();

// The first word of the command line of a check: a descriptor and the words of the run follow.
inline constexpr const char* check_upgrade_flag = "--check-upgrade";

// The arguments of a check, without the program's name. `words` are those of the run.
std::vector<std::string> check_words(int descriptor, const std::vector<std::string>& words);
// What a program prints that can continue. The version follows.
inline constexpr std::string_view can_continue_mark = "can continue: ";

class AgentUpgrade {
 public:
  // `side` must outlive this object.
  AgentUpgrade(asio::io_context& context, HelperProcesses& side);

  // Runs `program` as this one was started, to find out whether it can continue from that
  // state. Calls `done` from the event loop, within a time limit, with its version or the reason
  // why it cannot.
  using Done = std::function<void(const Result<std::string>& version)>;
  void check(const std::string& program, const Origin& origin, const std::string& state, Done done);

  // Executes `program` as this one was started, with that state. Returns only if that fails, with
  // the reason. Then everything is as before.
  static std::string execute(const std::string& program, const Origin& origin,
                             const UpgradeState& state);

 private:
  AsyncTask checks_;
};

// Names the descriptor of the state in the environment of the next program.
inline constexpr const char* upgrade_state_variable = "CPPRUN_UPGRADE_STATE";

// The state that another program in this process has left, if there was one: to be called once, at
// the start, before anything opens a descriptor. Its descriptors are closed on exec again, and it
// is removed from the environment.
std::optional<Result<UpgradeState>> take_upgrade_state(Environment& environment);
// The state that a check is about.
Result<UpgradeState> read_upgrade_state(int descriptor);

// Gives the inputs of a new run what it has from that state. Fails if the two do not fit.
Result<void> continue_inputs(RunInputs& inputs, const UpgradeState& before);
// What a check does with such inputs: all of the continuation that starts and opens nothing.
Result<void> try_to_continue(const RunInputs& inputs, const UpgradeState& before);

}  // namespace cpprun::io
