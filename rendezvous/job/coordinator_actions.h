// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Actions that a coordinator asks its driver to perform.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "proto/link/message.h"
#include "proto/rank.h"
#include "rendezvous/job/operator_command.h"
#include "rendezvous/logging.h"

namespace cpprun {

namespace coordinator {

// Sends the message on this link.
struct Say {
  LinkId link;
  link::Message message;
  friend bool operator==(const Say&, const Say&) = default;
};

// Closes the link once all messages queued on it have been sent.
struct HangUp {
  LinkId link;
  std::string reason;
  friend bool operator==(const HangUp&, const HangUp&) = default;
};

// A new round starts: clears the key space and closes all store connections of the old round.
struct ResetStore {
  std::string job;
  std::string reason;
  friend bool operator==(const ResetStore&, const ResetStore&) = default;
};

// The job needs its own store, on its own port; a local store has no port. The driver answers with
// StoreReady or StoreFailed.
struct OpenStore {
  std::string job;
  bool is_local = false;
  friend bool operator==(const OpenStore&, const OpenStore&) = default;
};

// The job is dropped: closes its store's port and all connections to it.
struct CloseStore {
  std::string job;
  std::string reason;
  bool goes_on = false;  // the job continues on another coordinator: what is kept of it stays
  friend bool operator==(const CloseStore&, const CloseStore&) = default;
};

// A line for the log.
struct Note {
  std::string line;
  // For a line that reports that a round is over and another follows: the failure that broke it.
  std::optional<link::Failure> root = {};
  LogLevel level = LogLevel::info;
  // About a node that is not in the job; such lines may repeat without limit.
  bool of_unidentified = false;
  std::string job = {};  // the job it is about, where a coordinator has several
  friend bool operator==(const Note&, const Note&) = default;
};

// A node joined or is gone. This is an event for observers; the log gets a Note of its own.
struct NodeChange {
  enum class Kind {
    joined,  // it is present; the round decides whether it has a seat
    lost,    // without notice
    left,    // as it announced, or because it was asked to
  };
  Kind kind = Kind::joined;
  std::string host;
  std::optional<GroupRank> rank = {};  // in this round, or in the previous one
  std::string reason = {};
  std::string job = {};  // where a coordinator has several
  friend bool operator==(const NodeChange&, const NodeChange&) = default;
};

// The result of an order. Emitted once for each order; observers get it as an event.
struct Answered {
  std::uint64_t ticket = 0;  // of the order
  OperatorCommand command;
  CommandResult outcome;
  friend bool operator==(const Answered&, const Answered&) = default;
};

// This daemon and a standby daemon swap roles. The driver answers with Coordinator::HandedOver.
struct HandOver {
  std::uint64_t ticket = 0;
  OperatorCommand command;
  friend bool operator==(const HandOver&, const HandOver&) = default;
};

// The job's record has changed. The driver must persist it before it performs the actions that
// follow. After CloseStore the record need not be kept.
struct KeepRecord {
  std::string job;
  friend bool operator==(const KeepRecord&, const KeepRecord&) = default;
};

// The contents of the job's store are known here: the store resumes.
struct RestoreStore {
  std::string job;
  friend bool operator==(const RestoreStore&, const RestoreStore&) = default;
};

// Sends the job's record on this link, to the node that takes over if this coordinator is lost.
struct ShowRecord {
  std::string job;
  LinkId link;
  friend bool operator==(const ShowRecord&, const ShowRecord&) = default;
};

// This coordinator was the job's standby and is its leader from now on. `again`: it was the leader,
// lost leadership and resumes.
struct Lead {
  std::string job;
  bool again = false;
  friend bool operator==(const Lead&, const Lead&) = default;
};

using Action = std::variant<Say, HangUp, ResetStore, OpenStore, CloseStore, Note, NodeChange,
                            Answered, KeepRecord, RestoreStore, ShowRecord, Lead, HandOver>;
using Actions = std::vector<Action>;

// The node that a refusal is for: its link, and the address it connects from.
struct Whom {
  LinkId link;
  const std::string& peer;
};
// Rejects a node: sends it the reason, logs that, and closes its link.
inline void refuse(const Whom& whom, const std::string& host, const std::string& reason,
                   Actions& actions) {
  actions.emplace_back(Say{whom.link, link::Refused{reason}});
  actions.emplace_back(HangUp{whom.link, reason});
  actions.emplace_back(
      Note{.line = "rejected the node on " + host + " (" + whom.peer + "): " + reason,
           .level = LogLevel::warning,
           .of_unidentified = true});
}

}  // namespace coordinator

}  // namespace cpprun
