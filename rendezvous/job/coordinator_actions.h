// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a coordinator wants done: the words between it and its driver.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "proto/ids.h"
#include "proto/link/message.h"
#include "rendezvous/job/order.h"
#include "rendezvous/logging.h"

namespace cpprun {

namespace coordinator {

// Send this message on that link.
struct Say {
  LinkId link;
  link::Message message;
  friend bool operator==(const Say&, const Say&) = default;
};

// Close that link once everything said on it has left.
struct HangUp {
  LinkId link;
  std::string reason;
  friend bool operator==(const HangUp&, const HangUp&) = default;
};

// A new round begins: its key space is empty, and no connection of the old one stays.
struct ResetStore {
  std::string job;
  std::string reason;
  friend bool operator==(const ResetStore&, const ResetStore&) = default;
};

// That job needs a store of its own, on a port of its own, or on none where it is local. Answered
// with StoreReady or StoreFailed.
struct OpenStore {
  std::string job;
  bool is_local = false;
  friend bool operator==(const OpenStore&, const OpenStore&) = default;
};

// That job is forgotten: its port is closed, and every connection to it.
struct CloseStore {
  std::string job;
  std::string reason;
  bool goes_on = false;  // elsewhere: what is kept of it stays
  friend bool operator==(const CloseStore&, const CloseStore&) = default;
};

// A line for the log.
struct Note {
  std::string line;
  // Where it says that a round is over and another follows: what broke it.
  std::optional<link::Failure> root = {};
  LogLevel level = LogLevel::info;
  bool of_stranger = false;  // about somebody who is not in the job, and may come without end
  std::string job = {};      // whose it is, where a coordinator has several
  friend bool operator==(const Note&, const Note&) = default;
};

// Who is there has changed: for whoever watches, the log has words of its own.
struct NodeChange {
  enum class Kind {
    joined,  // it is here; whether it has a seat is told by the round
    lost,    // without a word
    left,    // and said so
  };
  Kind kind = Kind::joined;
  std::string host;
  std::optional<GroupRank> rank = {};  // in this round, or in the one before
  std::string reason = {};
  std::string job = {};  // where a coordinator has several
  friend bool operator==(const NodeChange&, const NodeChange&) = default;
};

// What became of an order; said once for each, and to whoever keeps events.
struct Answered {
  std::uint64_t ticket = 0;  // of the order
  Order order;
  OrderOutcome outcome;
  friend bool operator==(const Answered&, const Answered&) = default;
};

// This daemon and one that stands by are to change places. Answered with Coordinator::HandedOver.
struct HandOver {
  std::uint64_t ticket = 0;
  Order order;
  friend bool operator==(const HandOver&, const HandOver&) = default;
};

// What that job would leave to the next coordinator is another now, and is to be kept before
// anybody hears of what follows. With CloseStore it is to be kept no longer.
struct KeepRecord {
  std::string job;
  friend bool operator==(const KeepRecord&, const KeepRecord&) = default;
};

// What the store of that job was is known here: it goes on. Answered with StoreLost where it
// cannot.
struct RestoreStore {
  std::string job;
  friend bool operator==(const RestoreStore&, const RestoreStore&) = default;
};

// What that job would leave is for the node that goes on with it where this coordinator is lost:
// say it through that link.
struct ShowRecord {
  std::string job;
  LinkId link;
  friend bool operator==(const ShowRecord&, const ShowRecord&) = default;
};

// This coordinator was the standby of that job, and leads it from now on; again: it was its leader,
// had lost that, and resumes.
struct Lead {
  std::string job;
  bool again = false;
  friend bool operator==(const Lead&, const Lead&) = default;
};

using Action = std::variant<Say, HangUp, ResetStore, OpenStore, CloseStore, Note, NodeChange,
                            Answered, KeepRecord, RestoreStore, ShowRecord, Lead, HandOver>;
using Actions = std::vector<Action>;

// Whom a refusal concerns, and from where it came.
struct Whom {
  LinkId link;
  const std::string& peer;
};
// No seat, said to the one who asked and to the log; its link is closed after it.
void refuse(const Whom& whom, const std::string& host, const std::string& reason, Actions& actions);

}  // namespace coordinator

}  // namespace cpprun
