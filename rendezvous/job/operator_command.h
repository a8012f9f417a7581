// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// An operator's request to a running job, and its result. Plain values: HTTP requests, tests and
// the simulator all use the same ones (Coordinator::Ordered).

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clock.h"

namespace cpprun {

namespace bounds {

// The reason for an order: a sentence that is sent to every node, in messages of 512 bytes.
inline constexpr std::size_t command_reason_bytes_max = 200;
// How far ahead a save is scheduled. Every node must know of it by then, even if a packet had to be
// retransmitted.
inline constexpr std::chrono::nanoseconds save_lead = std::chrono::seconds(1);
// Excluded hosts per job, and the longest exclusion. An exclusion without a length has no limit.
inline constexpr std::size_t exclusions_max = 1024;
inline constexpr std::chrono::nanoseconds exclusion_max = std::chrono::hours(24 * 366);
// Jobs named in a result because they keep an excluded host.
inline constexpr std::size_t jobs_named_max = 32;
// Agents remembered as asked to leave: as many as may have missed that at the same time.
inline constexpr std::size_t dismissals_max = 1024;

}  // namespace bounds

struct OperatorCommand {
  enum class Kind {
    stop,      // ends the job, as SIGTERM to a node would
    restart,   // ends the round politely and starts the next one; uses no restart
    save,      // sends a signal to all workers at one moment
    capture,   // finds out what all workers do; they run on
    drain,     // makes those nodes leave politely
    exclude,   // no node of that host gets a seat for a while; those that have one leave
    include,   // lifts an exclusion
    forget,    // a daemon drops a job that is over, or that all of its nodes have left
    upgrade,   // a node's agent is replaced by another version, and its workers run on
    handover,  // a leading daemon and a standby swap roles
  };

  Kind kind = Kind::stop;
  std::string job = {};   // its id; empty if the order is about a host or a daemon
  std::string whom = {};  // drain, upgrade: a node's rank, or its host; exclude, include: the host
  int signal = 0;         // save
  bool native = false;    // capture: frames of C and C++ as well
  Duration length{};      // exclude; zero: until the job is over
  std::string reason = {};  // as the client gave it; may be empty
  std::string by = {};      // the client, as the server knows it: "uid 0 (root)"
  friend bool operator==(const OperatorCommand&, const OperatorCommand&) = default;

  bool is_about_a_host() const { return kind == Kind::exclude || kind == Kind::include; }
  bool is_about_a_node() const { return kind == Kind::drain || kind == Kind::upgrade; }
  bool is_about_the_daemon() const { return kind == Kind::handover; }
};

struct CommandResult {
  enum class Kind {
    done,
    malformed,  // the request makes no sense
    unknown,    // no such job, node or host
    not_now,    // not possible in the current state
  };
  Kind kind = Kind::done;
  std::string sentence;  // what was done, or why not, with a hint
  // For a completed exclude: the jobs that cannot do without the host and keep it, a few of them.
  std::vector<std::string> kept_by = {};
  friend bool operator==(const CommandResult&, const CommandResult&) = default;

  bool is_done() const { return kind == Kind::done; }
};

// The name of an order, such as "stop", and the reverse.
std::string_view name_of(OperatorCommand::Kind kind);
std::optional<OperatorCommand::Kind> command_kind(std::string_view name);
// "done", "malformed", "unknown", "not_now".
std::string_view name_of(CommandResult::Kind kind);

// Who did it, and why: "uid 0 (root) stopped the job: the disk is full".
std::string told_by(const OperatorCommand& command, std::string_view what);
// For a log: "uid 0 (root) asks to drain "3" of job "a" (the disk is full)".
std::string text_of(const OperatorCommand& command);

// Why that signal must not be used for saving; nothing if it may be sent.
std::optional<std::string> objection_to_signal(int signal);

}  // namespace cpprun
