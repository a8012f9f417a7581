// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The cppruns that stand by for this one, which leads: each is told the records of all jobs and the
// logs of their stores, and says how much of that it has. What nodes and workers are told waits
// until all that are in sync have what it follows from. Who is in sync is for the owner to make
// known before it counts, since one that is lost must not lead later with what it lacks.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "proto/link/binary_frame.h"
#include "proto/link/message.h"
#include "rendezvous/coordinator/io/store_logs.h"
#include "rendezvous/io/event_loop.h"
#include "rendezvous/io/link_end.h"
#include "rendezvous/logging.h"
#include "rendezvous/status/daemon_snapshot.h"

namespace cpprun {

class Standbys {
 public:
  struct Callbacks {
    std::size_t standbys_max = 0;  // and no others
    std::function<void(LogLevel level, const std::string& sentence)> say;
    StoreLogs* logs = nullptr;
    // The records of all jobs, as they are kept.
    std::function<std::map<std::string, std::string>()> records;
    // What nodes are told from now on waits for that place; and how far everybody has come.
    std::function<void(std::uint64_t place)> wait_for;
    std::function<void(std::uint64_t through)> kept;
    // Those have everything that anybody was told, and this one leads: to be made known, and
    // answered with known(). Others than these are not to lead.
    std::function<void(const std::vector<std::string>& names)> make_known;
    // Which there are, as agents meet them.
    std::function<void(const std::vector<std::string>& places)> changed;
  };
  Standbys(EventLoop loop, Callbacks callbacks);
  ~Standbys();
  Standbys(const Standbys&) = delete;
  Standbys& operator=(const Standbys&) = delete;

  // Until end(), in that epoch, as the one of that name. The first known() is that of this one
  // alone.
  void begin(const link::Leads& own);
  bool is_begun() const { return is_begun_; }
  void end(const std::string& reason);
  // Somebody wants to stand by.
  void adopt(const std::shared_ptr<LinkEnd>& channel, const link::Follow& follow);
  // What make_known() was told last is known, by everybody who could lead.
  void known(const std::vector<std::string>& names);

  void keep(const std::string& job, const std::string& record);
  void forget(const std::string& job);

  // By their whole names.
  std::vector<StandbySnapshot> seen() const;
  // Of those that are to be known, this one among them.
  const std::vector<std::string>& names() const { return asked_names_; }
  // That one is in sync, and has everything.
  bool is_ready(const std::string& name) const;
  // The same is told to lead: nothing is said to anybody after that.
  void hand_over(const std::string& name);

 private:
  class Standby;
  std::uint64_t next_place() { return ++place_; }
  void ended(Standby& standby, const std::string& reason);
  void no_longer_wait_for(Standby& standby);
  void look_at_places();
  void look_at_names();
  std::string who_holds_up() const;
  void look_at_what_is_asked();
  void beat();
  void pass_over_sleep();

  const EventLoop loop_;
  const Callbacks callbacks_;
  const std::unique_ptr<Alarm> alarm_;
  TimePoint beat_due_{};
  link::Leads own_;
  bool is_begun_ = false;
  std::uint64_t place_ = 0;                                   // of the last that anybody was told
  std::map<std::string, std::unique_ptr<Standby>> standbys_;  // by name
  std::vector<std::string> asked_names_;                      // that are to be known
  std::optional<TimePoint> asked_at_;     // as long as nothing was heard of that, or said of it
  std::vector<std::string> known_names_;  // that are, for all anybody knows
  std::set<std::string> may_lead_;  // that may be known: those, and all that were asked for since
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace cpprun
