// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The events and actions of a LeaderElection, and the interface through which its owner runs it
// (Elector).

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "proto/clock.h"
#include "proto/rank.h"
#include "rendezvous/etcd/codec.h"
#include "rendezvous/etcd/etcd_request.h"

namespace cpprun {

// One request to etcd. A LeaderElection never reuses an id.
using AskId = Id<struct AskTag, std::uint64_t>;

}  // namespace cpprun

namespace cpprun::election {

// --- events --------------------------------------------------------------------------------------

// The owner wants to lead (Enter), or no longer does (Withdraw). A leader then resigns.
struct Enter {};
struct Withdraw {};
// The leader resigns in favor of that synced standby. Results in Deposed or NotHandedOver.
struct HandOver {
  std::string name;
};
// The next three are for the leader; otherwise they are refused. Numbers have to increase.
struct Publish {
  std::vector<std::string> synced;  // besides the leader
  std::uint64_t number = 0;
};
struct Keep {
  std::string name;
  std::string record;
  std::uint64_t number = 0;
};
struct Drop {
  std::string name;
  std::uint64_t number = 0;
};
// The leader has just resigned or was killed: etcd will show it in a moment.
struct Attend {};
// The result of an Ask.
struct Answered {
  AskId id;
  etcd::Heard heard;
};
using Event = std::variant<Enter, Withdraw, HandOver, Publish, Keep, Drop, Attend, Answered>;

// --- actions -------------------------------------------------------------------------------------

// A lane carries one request at a time; requests in one lane never wait for the other.
enum class Lane { lease, writes };
inline constexpr std::size_t lanes = 2;

// What is written in etcd if the process of this leader ends without resigning (LeaseGuard): the
// next leader need not wait for the end of the lease then. Replaces the one before.
struct Will {
  etcd::Revision epoch = 0;
  std::string synced;  // the value of that key
  friend bool operator==(const Will&, const Will&) = default;
};

// To be answered exactly once; with a failure if there is no reply within `timeout`.
struct Ask {
  AskId id;
  Lane lane = Lane::lease;
  std::size_t endpoint = 0;  // index into the options' endpoints
  etcd::Request request;
  Duration timeout{};
  friend bool operator==(const Ask&, const Ask&) = default;
};

// Another candidate leads; `card` says how to reach it. If `name` is the own name, the entry is
// left over from an earlier process: nothing serves it, and its lease will expire.
struct LeaderIs {
  etcd::Revision epoch = 0;
  std::string name;
  std::string card;
  std::vector<std::string> synced;
  friend bool operator==(const LeaderIs&, const LeaderIs&) = default;
};
struct NoLeader {
  std::string successor = {};  // to whom the last leader transferred leadership; empty: it did not
  friend bool operator==(const NoLeader&, const NoLeader&) = default;
};

// What the previous leaders left. Only sent right before Leads.
struct Found {
  std::vector<std::string> synced;  // the synced members; empty: there was no leader before
  std::map<std::string, std::string> records;  // by name
  friend bool operator==(const Found&, const Found&) = default;
};
// It leads from now until that time of the local clock.
struct Leads {
  etcd::Revision epoch = 0;
  TimePoint until{};
  friend bool operator==(const Leads&, const Leads&) = default;
};
struct Renewed {
  TimePoint until{};
  friend bool operator==(const Renewed&, const Renewed&) = default;
};
// It lost leadership, effective now. A change that was not confirmed by Written may or may not have
// been written.
struct Deposed {
  std::string reason;       // a clause
  bool is_orderly = false;  // at the owner's request
  friend bool operator==(const Deposed&, const Deposed&) = default;
};
// Leadership was not transferred: it still leads, or did not lead.
struct NotHandedOver {
  std::string reason;  // a clause
  friend bool operator==(const NotHandedOver&, const NotHandedOver&) = default;
};
// All changes up to that number are in etcd for the next leader.
struct Written {
  std::uint64_t through = 0;
  friend bool operator==(const Written&, const Written&) = default;
};
// That change was rejected.
struct NotWritten {
  std::uint64_t number = 0;
  std::string reason;
  friend bool operator==(const NotWritten&, const NotWritten&) = default;
};
// The owner has withdrawn, and nothing of this candidate is left in etcd.
struct Withdrawn {
  friend bool operator==(const Withdrawn&, const Withdrawn&) = default;
};

// etcd does not reply (the reason is a sentence); and it replies again.
struct Unreachable {
  std::string reason;
  Duration silence = {};  // since the last reply; zero: there was none
  friend bool operator==(const Unreachable&, const Unreachable&) = default;
};
struct Reachable {
  friend bool operator==(const Reachable&, const Reachable&) = default;
};
// The same for changes: the leader keeps leading, but no candidate can win.
struct Unwritable {
  std::string reason;
  bool is_refused = false;  // etcd itself refuses; else there is no reply
  friend bool operator==(const Unwritable&, const Unwritable&) = default;
};
struct Writable {
  friend bool operator==(const Writable&, const Writable&) = default;
};
// The content of etcd is inconsistent with what was seen before. While that lasts it neither leads
// nor follows.
struct Inconsistent {
  std::string reason;
  friend bool operator==(const Inconsistent&, const Inconsistent&) = default;
};
struct Unbarred {
  friend bool operator==(const Unbarred&, const Unbarred&) = default;
};

using Action = std::variant<Ask, Will, LeaderIs, NoLeader, Found, Leads, Renewed, Deposed, Written,
                            NotHandedOver, NotWritten, Withdrawn, Unreachable, Reachable,
                            Unwritable, Writable, Inconsistent, Unbarred>;
using Actions = std::vector<Action>;

}  // namespace cpprun::election

namespace cpprun {

// A running election as its owner uses it: ElectionDriver, or a simulation.
class Elector {
 public:
  // Receives all actions but Ask, in order. It may call tell(). It may also destroy the elector,
  // but not from within the call.
  using Told = std::function<void(const election::Action&)>;

  virtual ~Elector() = default;
  // Starts to watch who leads. It does not campaign before it receives Enter.
  virtual void start() = 0;
  virtual void tell(election::Event event) = 0;
};

}  // namespace cpprun
