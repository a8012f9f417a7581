// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What somebody asks of a running job, and what became of that. Plain values: a person's request by
// HTTP, a test and the simulator all make the same ones (Coordinator::Ordered).

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clock.h"

namespace cpprun {

namespace bounds {

// Why: a sentence, which travels to every node in messages of 512 bytes.
inline constexpr std::size_t order_reason_bytes_max = 200;
// The moment of a save lies so far ahead that every node knows of it by then, also where a packet
// had to be sent again.
inline constexpr std::chrono::nanoseconds save_lead = std::chrono::seconds(1);
// Hosts that are excluded from a job, and how long at most: whoever means longer means for ever.
inline constexpr std::size_t exclusions_max = 1024;
inline constexpr std::chrono::nanoseconds exclusion_max = std::chrono::hours(24 * 366);
// Jobs that keep a host and are named for it.
inline constexpr std::size_t jobs_named_max = 32;
// Agents that are remembered as asked to leave: as many as may have missed it at a time.
inline constexpr std::size_t dismissals_max = 1024;

}  // namespace bounds

struct Order {
  enum class Kind {
    stop,      // the job, as SIGTERM at a node would
    restart,   // the round ends politely, and the next one begins; costs no restart
    save,      // a signal to all workers at one moment
    drain,     // those nodes leave politely
    exclude,   // no node of that host gets a seat for a while; those that have one leave
    include,   // it may come again
    forget,    // a daemon drops a job that is over, or that all of its nodes have left
    handover,  // a daemon that leads and one that stands by change places
  };

  Kind kind = Kind::stop;
  std::string job = {};     // whose; empty where a host or a daemon is meant
  std::string whom = {};    // drain: a node's rank, or its host; exclude, include: the host
  int signal = 0;           // save
  Duration length{};        // exclude; zero: until the job is over
  std::string reason = {};  // in the words of whoever asks; may be empty
  std::string by = {};      // who that is, as the server knows it: "uid 0 (root)"
  friend bool operator==(const Order&, const Order&) = default;

  bool is_about_a_host() const { return kind == Kind::exclude || kind == Kind::include; }
  bool is_about_the_daemon() const { return kind == Kind::handover; }
};

struct OrderOutcome {
  enum class Kind {
    done,
    malformed,  // what was asked cannot be meant
    unknown,    // no such job, node or host
    not_now,    // it cannot be done as things are
  };
  Kind kind = Kind::done;
  std::string sentence;  // what was done, or why not and what helps
  // exclude, where it is done: the jobs that cannot do without the host and keep it, a few of them.
  std::vector<std::string> kept_by = {};
  friend bool operator==(const OrderOutcome&, const OrderOutcome&) = default;

  bool is_done() const { return kind == Kind::done; }
};

// "stop"; and back.
std::string_view name_of(Order::Kind kind);
std::optional<Order::Kind> order_kind(std::string_view name);
// "done", "malformed", "unknown", "not_now".
std::string_view name_of(OrderOutcome::Kind kind);

// "uid 0 (root) stopped the job: the disk is full": who did that, and why.
std::string told_by(const Order& order, std::string_view what);
// "uid 0 (root) asks to drain "3" of job "a" (the disk is full)", for a log.
std::string text_of(const Order& order);

// Why that signal is not for saving; nothing: it may be sent.
std::optional<std::string> objection_to_signal(int signal);

}  // namespace cpprun
