// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a Contest is told and what it wants to be done, and how its owner has it (Contestant).

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "proto/clock.h"
#include "proto/rank.h"
#include "rendezvous/etcd/codec.h"
#include "rendezvous/etcd/etcd_request.h"

namespace cpprun {

// One request to etcd; never reused by a Contest.
using AskId = Id<struct AskTag, std::uint64_t>;

}  // namespace cpprun

namespace cpprun::contest {

struct Record {
  std::string name;
  std::string record;
  friend bool operator==(const Record&, const Record&) = default;
};

// --- what happened -------------------------------------------------------------------------------

// The owner wants to lead; and does not any more. Whoever leads then ends in an orderly way.
struct Enter {};
struct Withdraw {};
// Whoever leads steps back, and that one, which is synced, comes first: Deposed, or NotHandedOver.
struct HandOver {
  std::string name;
};
// Of whoever leads; elsewhere they are refused. Numbers grow from one to the next.
struct Publish {
  std::vector<std::string> synced;  // beside the one that leads
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
// Whether somebody waits to hear who leads; at first it does.
struct Attend {
  bool is_needed = true;
  bool is_imminent = false;  // whoever leads has just handed over, and etcd hears of it in a moment
};
// What became of an Ask.
struct Answered {
  AskId id;
  etcd::Heard heard;
};
using Event = std::variant<Enter, Withdraw, HandOver, Publish, Keep, Drop, Attend, Answered>;

// --- what is to be done --------------------------------------------------------------------------

// A lane has one request at a time, and what is asked in one never waits for the other.
enum class Lane { lease, writes };
inline constexpr std::size_t lanes = 2;

// What is written in etcd if the process of this leader ends without resigning (LeaseGuard): the
// next leader need not wait for the end of the lease then. Replaces the one before.
struct Will {
  etcd::Revision epoch = 0;
  std::string synced;  // the value of that key
  friend bool operator==(const Will&, const Will&) = default;
};

// Answered once, with a failure where nothing has come after `patience`.
struct Ask {
  AskId id;
  Lane lane = Lane::lease;
  std::size_t endpoint = 0;  // of those in the options
  etcd::Request request;
  Duration patience{};
  friend bool operator==(const Ask&, const Ask&) = default;
};

// Somebody else leads, who is reached as the card says. Where the name is one's own it is what is
// left of an earlier life: nobody is there, and its lease will end.
struct LeaderIs {
  etcd::Revision epoch = 0;
  std::string name;
  std::string card;
  std::vector<std::string> synced;
  friend bool operator==(const LeaderIs&, const LeaderIs&) = default;
};
struct NobodyLeads {
  std::string heir = {};  // to whom the last one has handed over; empty: it has not
  friend bool operator==(const NobodyLeads&, const NobodyLeads&) = default;
};

// What the leaders before have left; only ever right before Leads.
struct Found {
  std::vector<std::string> synced;  // who had everything; empty: nobody has led before
  std::vector<Record> records;
  friend bool operator==(const Found&, const Found&) = default;
};
// From now on, and until then by one's own clock.
struct Leads {
  etcd::Revision epoch = 0;
  TimePoint until{};
  friend bool operator==(const Leads&, const Leads&) = default;
};
struct Renewed {
  TimePoint until{};
  friend bool operator==(const Renewed&, const Renewed&) = default;
};
// It leads no more, from this moment. What was not told as written may be written or not.
struct Deposed {
  std::string reason;       // a clause
  bool is_orderly = false;  // the owner has asked for it
  friend bool operator==(const Deposed&, const Deposed&) = default;
};
// The lead was not handed over: it leads on, or did not lead.
struct NotHandedOver {
  std::string reason;  // a clause
  friend bool operator==(const NotHandedOver&, const NotHandedOver&) = default;
};
// All wishes up to that number are there for whoever leads next.
struct Written {
  std::uint64_t through = 0;
  friend bool operator==(const Written&, const Written&) = default;
};
// That wish is not carried out.
struct NotWritten {
  std::uint64_t number = 0;
  std::string reason;
  friend bool operator==(const NotWritten&, const NotWritten&) = default;
};
// The owner has withdrawn, and nothing of it is left in etcd.
struct Withdrawn {
  friend bool operator==(const Withdrawn&, const Withdrawn&) = default;
};

// Nobody answers any more, a sentence; and somebody does again.
struct Unreachable {
  std::string reason;
  Duration silence = {};  // since the last answer; zero: there was none
  friend bool operator==(const Unreachable&, const Unreachable&) = default;
};
struct Reachable {
  friend bool operator==(const Reachable&, const Reachable&) = default;
};
// The same of changes: who leads goes on leading, and nobody can win.
struct Unwritable {
  std::string reason;
  bool is_refused = false;  // etcd says so itself; else nobody answers
  friend bool operator==(const Unwritable&, const Unwritable&) = default;
};
struct Writable {
  friend bool operator==(const Writable&, const Writable&) = default;
};
// What is in etcd is not what it was: it neither leads nor follows anybody as long as that is so.
struct Barred {
  std::string reason;
  friend bool operator==(const Barred&, const Barred&) = default;
};
struct Unbarred {
  friend bool operator==(const Unbarred&, const Unbarred&) = default;
};
// To be remembered: by these one's own etcd is known from another.
struct ClusterIs {
  std::string id;
  friend bool operator==(const ClusterIs&, const ClusterIs&) = default;
};

using Action = std::variant<Ask, Will, LeaderIs, NobodyLeads, Found, Leads, Renewed, Deposed,
                            Written, NotHandedOver, NotWritten, Withdrawn, Unreachable, Reachable,
                            Unwritable, Writable, Barred, Unbarred, ClusterIs>;
using Actions = std::vector<Action>;

}  // namespace cpprun::contest

namespace cpprun {

// A contest at work, as its owner has it: ContestHost, or what a simulated world has in its place.
class Contestant {
 public:
  // Told everything but an Ask, which is not the owner's matter, in order. It may tell() something,
  // and end the contestant, but not from within.
  using Told = std::function<void(const contest::Action&)>;

  virtual ~Contestant() = default;
  // Looks who leads from here on, and wants to lead when it is told so.
  virtual void start() = 0;
  virtual void tell(contest::Event event) = 0;
};

}  // namespace cpprun
