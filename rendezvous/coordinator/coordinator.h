// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The whole daemon as one machine (Coordinator), how its last jobs ended (EndedJobs), and what the
// next coordinator has to know.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "proto/bounds.h"
#include "proto/clock.h"
#include "proto/state_machine.h"
#include "rendezvous/coordinator/admission_control.h"
#include "rendezvous/coordinator/agenda.h"
#include "rendezvous/coordinator/held_messages.h"
#include "rendezvous/job/job.h"
#include "rendezvous/job/leases.h"
#include "rendezvous/status/snapshot.h"
#include "rendezvous/store/store.h"

namespace cpprun {

// Several looks of Prometheus, and as many jobs as might end together; 2 KiB each.
inline constexpr Duration ended_job_told = std::chrono::minutes(10);
inline constexpr std::size_t ended_jobs_told_max = 64;

// How a daemon's last jobs ended, for Prometheus, which looks four times a minute: a job itself is
// forgotten with its last node. Kept for a while and in small number; nothing here wakes anybody
// up.
class EndedJobs {
 public:
  // A job is over since then. One of that name that has ended before is told of no more.
  void add(TimePoint now, JobSnapshot job);
  // A job of that name has begun.
  void forget(const std::string& id);
  // In the order in which they ended.
  std::vector<JobSnapshot> told(TimePoint now) const;

 private:
  struct Ended {
    TimePoint at{};
    JobSnapshot job;
  };
  std::deque<Ended> ended_;  // Invariant: each name once.
};

// What strangers can take of a daemon at most, so that something is left for everybody else. A site
// may set them; a coordinator of one job counts only the links that have not joined it.
struct CoordinatorLimits {
  std::size_t jobs = bounds::jobs_max;
  std::size_t jobs_per_source = bounds::jobs_per_source_max;
  std::size_t links_per_source = bounds::links_per_source_max;
  std::size_t newcomers = bounds::newcomers_max;  // that may take their time to say who they are
  Duration lease = bounds::daemon_lease_max;      // that a job's first node may ask for
  friend bool operator==(const CoordinatorLimits&, const CoordinatorLimits&) = default;
};

struct CoordinatorOptions {
  std::optional<JobTerms> only;  // the one job that this coordinator hosts; nothing: any
  JobOptions options;            // of every job; store_port is that of `only`
  CoordinatorLimits limits = {};
  bool keeps_records = false;  // of its jobs, for the next one
  bool stands_by = false;      // `only` is another's, until that is lost
  bool follows = false;        // it is one of several daemons, and does not lead until it is told
};

// The whole daemon as one machine: which jobs there are, which link belongs to which, and each
// job's store. It knows no socket: links are numbers, time is an argument, and what has to be done
// comes back as a list.
//
// It works in one of two ways. In cpprun it hosts one job, known from the start, and refuses every
// other. In cpprund a job comes into being with the first node that names it, on that node's terms,
// gets a store with a port of its own, and is forgotten when its last node has left. And a node may
// have one that stands by (succession.cpp): it has no job, but what another coordinator would leave
// of one, and goes on with it when enough of its nodes have lost that one. And a daemon may be one
// of several (leading.cpp), of which one leads and the others tell whoever comes where that is.
//
// Store clients are not events: a request goes to the job's Store directly (`store`), because at a
// million requests a second nothing should stand in between. Whether a client may speak at all is
// asked once, when it connects (`admit`).
class Coordinator {
 public:
  // --- events ---
  // A link was opened, by an agent that has greeted with the preamble.
  struct Opened {
    Caller caller;
  };
  struct Said {
    LinkId link;
    link::Message message;
  };
  struct Closed {
    LinkId link;
    std::string reason;
    bool broken = false;  // neither side closed it, or too early: its agent may come back
  };
  // The answers to OpenStore.
  struct StoreReady {
    std::string job;
    int port = 0;
  };
  struct StoreFailed {
    std::string job;
    std::string reason;
  };

  // The agent in the coordinator's own process cannot join yet; a clause for the others.
  struct MasterWaits {
    std::string why;
  };

  // A worker has spoken to that job's store, for the first time in its round. Told more often, it
  // changes nothing.
  struct StoreAsked {
    std::string job;
  };
  // What another coordinator has left of a job; before anybody comes. Its nodes are links from
  // `first_link` on until they are back.
  struct Recovered {
    JobRecord record;
    LinkId first_link;
    bool has_store = false;  // of its round, as it was
  };
  // After RestoreStore: it cannot be gone on with.
  struct StoreLost {
    std::string job;
    std::string reason;
  };
  // Of the one before: so it is here.
  struct HostsExcluded {
    std::vector<Exclusions::Entry> hosts;
  };
  // --- of one that stands by ---
  // What the coordinator of its job would leave. Its nodes are links from `first_link` on until
  // they are here.
  struct Succession {
    JobRecord record;
    LinkId first_link;
  };
  // The agent in this process has lost that coordinator in that round, and votes for this one; by
  // what it says of itself. Without a vote it follows that coordinator again.
  struct Standing {
    link::Join own;
  };

  // The other coordinator leaves, and has transferred leadership of its round to this one.
  struct TakesOver {
    link::Join own;
  };

  // --- of one of several daemons ---
  // It leads from now on, in that epoch, and has no jobs but those that are recovered next. Agents
  // are told of those places, its own first; for so long their workers live on where it is lost.
  struct Leads {
    link::Members members;
  };
  // Another one does, there; or nobody, as far as is known. Whatever jobs it had go on elsewhere,
  // and nobody hears anything of them here.
  struct Follows {
    std::string reason;  // a clause, for whoever comes
    std::string address = {};
    int port = 0;
    // This one will in a moment: whoever comes waits until then, or for another word.
    bool is_about_to_lead = false;
    bool is_planned = false;  // somebody wanted it so
  };
  // It leads, with everything that was left: whoever has waited for that is heard.
  struct LetsIn {};
  // While it leads: there are others to turn to.
  struct MembersChanged {
    std::vector<std::string> places;
  };

  // An operator asks for something. Answered under that ticket, before anything else happens; a
  // handover, which takes a moment, with HandedOver.
  struct Ordered {
    std::uint64_t ticket = 0;
    Order order;
  };
  // The answer to HandOver, be it that another one leads by now.
  struct HandedOver {
    std::uint64_t ticket = 0;
    Order order;
    OrderOutcome outcome;
  };

  // Somebody looks at that job; at all of them where it is not named.
  struct LookedAt {
    std::optional<std::string> job;
  };

  using Event = std::variant<Opened, Said, Closed, StoreReady, StoreFailed, MasterWaits, StoreAsked,
                             Recovered, StoreLost, HostsExcluded, Succession, Standing, TakesOver,
                             Leads, Follows, LetsIn, MembersChanged, Ordered, HandedOver, LookedAt>;
  using Action = coordinator::Action;
  using Actions = coordinator::Actions;

  explicit Coordinator(CoordinatorOptions options);

  Actions handle(TimePoint now, const Event& event);
  Actions advance(TimePoint now);
  std::optional<TimePoint> next_deadline() const;
  // The invariant that is broken, if one is.
  std::optional<std::string> check() const;

  // Through whose link the workers of a seat reach their job's store.
  struct Seat {
    std::string job;
    RoundNumber round;
    GroupRank group_rank;
    friend bool operator==(const Seat&, const Seat&) = default;
  };
  // Nothing: nobody who has a seat in a round speaks through it, or its job's store is not local.
  std::optional<Seat> seat_of(LinkId link) const;
  // Whether a store client from that numeric address may use that job's store; if not, why.
  Result<void> admit(const std::string& job, const std::string& peer) const;
  // The store of a job that it `knows`: from StoreReady, or the start, until it is forgotten.
  Store& store(const std::string& job) { return jobs_.at(job)->store; }
  bool knows(const std::string& job) const { return jobs_.contains(job); }
  std::size_t job_count() const { return jobs_.size(); }
  // The job that has spoken through that link; null: none has.
  const std::string* job_of(LinkId link) const;
  // For whoever looks: null if there is none of that name; and at most so many in the order of
  // their names, those behind that one.
  const Job* find(const std::string& job) const;
  // Whose job that is, or will be once its store is there; nothing: there is none of that name.
  std::optional<std::string> owner_of(const std::string& job) const;
  // Of everybody, or of that owner.
  std::vector<const Job*> jobs_after(const std::string& name, std::size_t jobs_max,
                                     const std::optional<std::string>& owner = {}) const;
  // What the next coordinator has to know of a job that it `knows`.
  JobRecord record_of(const std::string& job) const;
  // And which hosts get no seat in those that are still to come.
  const std::vector<Exclusions::Entry>& excluded_hosts() const { return exclusions_.entries(); }
  // It goes on with the job of another, or waits for that.
  bool stands_by() const { return candidacy_.has_value(); }
  // It is one of several daemons, and another one leads, or nobody.
  bool follows() const { return following_.has_value(); }
  // In which epoch it leads; nothing: it is not one of several, or does not.
  std::optional<std::uint64_t> epoch() const {
    return members_ ? std::optional(members_->epoch) : std::nullopt;
  }
  // How a daemon's last jobs ended.
  const EndedJobs& ended() const { return ended_; }
  // The one hosted job is over, and no connected node still has to be told.
  bool done() const;

 private:
  struct Entry {
    Job job;
    Store store;
    std::string founder;     // the address whose node was the first; of a hosted job nobody's
    std::string owner;       // whose secret that node held
    std::uint64_t kept = 0;  // how far its record was kept: Job::steps()
  };
  using Newcomer = std::pair<Caller, link::Join>;
  // An agent that speaks from a further address of its machine.
  struct Introduction {
    link::WhoHosts agent;
    Caller from;
  };
  // A job whose store is being opened.
  struct Beginning {
    std::string founder;
    std::string owner;
    std::vector<Newcomer> nodes;
    std::optional<Recovered> before = {};  // what another coordinator has left of it
  };

  // Of one that stands by, until it leads.
  struct Candidacy {
    std::optional<JobRecord> record = {};  // the last that was heard
    LinkId first_link{};
    link::Join own = {};
    std::vector<Newcomer> asked = {};  // who came, and waits for an answer
    // By host, pid and number of an agent of the round: when it sent the latest join heard here.
    std::map<std::tuple<std::string, int, std::uint32_t>, link::AgentTime> asked_at = {};
    bool stands() const { return own.vote != RoundNumber{}; }
  };

  void on(TimePoint now, const Opened& event, Actions& actions);
  void on(TimePoint now, const Said& event, Actions& actions);
  void on(TimePoint now, const Closed& event, Actions& actions);
  void on(TimePoint now, const StoreReady& event, Actions& actions);
  void on(TimePoint now, const MasterWaits& event, Actions& actions);
  void on(TimePoint now, const StoreFailed& event, Actions& actions);
  void on(TimePoint now, const StoreAsked& event, Actions& actions);
  void on(TimePoint now, const Recovered& event, Actions& actions);
  void on(TimePoint now, const StoreLost& event, Actions& actions);
  void on(TimePoint now, const HostsExcluded& event, Actions& actions);
  void on(TimePoint now, const Succession& event, Actions& actions);
  void on(TimePoint now, const Standing& event, Actions& actions);
  void on(TimePoint now, const TakesOver& event, Actions& actions);
  void ask_standby(TimePoint now, const Caller& caller, const link::Join& join, Actions& actions);
  std::size_t votes() const;
  bool is_vote(const link::Join& join) const;
  bool is_outdated(const link::Join& join);
  void consider_leading(TimePoint now, Actions& actions);
  void lead(TimePoint now, Candidacy candidacy, bool is_transfer, Actions& actions);
  void on(TimePoint now, const Leads& event, Actions& actions);
  void on(TimePoint now, const Follows& event, Actions& actions);
  void on(TimePoint now, const LetsIn& event, Actions& actions);
  void on(TimePoint now, const MembersChanged& event, Actions& actions);
  void drop_everything(const Follows& event, Actions& actions);
  bool turns_away(const Caller& caller, const link::Join& join, Actions& actions);
  void tell_members(LinkId link, Actions& actions) const;
  void on(TimePoint now, const Ordered& event, Actions& actions);
  void on(TimePoint now, const HandedOver& event, Actions& actions);
  OrderOutcome order(TimePoint now, const Order& order, Actions& actions);
  OrderOutcome order_of_job(TimePoint now, const Order& order, Actions& actions);
  OrderOutcome order_of_host(TimePoint now, const Order& order, Actions& actions);
  OrderOutcome forget_on_order(TimePoint now, const Order& order, Actions& actions);
  std::vector<std::string> jobs_that_go_on() const;
  void on(TimePoint now, const LookedAt& event, Actions& actions);
  void join(TimePoint now, const Caller& caller, const link::Join& join, Actions& actions);
  void begin_job(TimePoint now, const Caller& caller, const link::Join& join, Actions& actions);
  bool make_place(Actions& actions);
  void forget(const std::string& job, const std::string& why, Actions& actions);
  void enter(TimePoint now, Entry& entry, const Newcomer& newcomer, Actions& actions);
  void answer(TimePoint now, const Caller& caller, const link::WhoHosts& question,
              Actions& actions);
  void hear_leader(TimePoint now, const Caller& caller, const link::WhoHosts& leader,
                   Actions& actions);
  void turn_away(const Caller& caller, const link::Join& join, Actions& actions) const;
  void introduce(const Caller& caller, const link::WhoHosts& agent, Actions& actions);
  void welcome(Job& job, const Newcomer& newcomer, Actions& actions);
  void forget_newcomer(LinkId link);
  void hear_early(const Said& event, Actions& actions);
  std::optional<TimePoint> next_to_make_room() const;
  void make_room(TimePoint now, Actions& actions);
  // Of a job that begins with this node, or did.
  JobOptions options_of(const link::Join& first, int store_port) const;
  void recover(TimePoint now, const StoreReady& event, Beginning begins, Actions& actions);
  static void keep(const std::string& job, Entry& entry, std::size_t said_before, Actions& actions);
  void keep_hosts(Actions& actions) const;
  void sign_notes(const std::string& job, std::size_t said_before, Actions& actions) const;
  void look_after(const std::string& job, std::size_t said_before, Actions& actions);
  void release(LinkId link);
  // The one hosted job is, or goes on elsewhere because this coordinator leaves.
  bool is_over() const;
  // Null where this one stands by.
  const Entry* hosted() const;

  CoordinatorOptions options_;
  std::unordered_map<std::string, std::unique_ptr<Entry>> jobs_;
  std::optional<Candidacy> candidacy_;
  std::optional<link::Led> led_;  // where the hosted job is led, if not here
  std::optional<Follows> following_;
  std::vector<Newcomer> waiting_;         // for this one to lead
  EarlyWords early_;                      // of those whose job cannot hear them yet
  std::optional<link::Members> members_;  // while it leads
  std::unordered_set<LinkId> turning_;    // links whose agents turn to another daemon
  Agenda agenda_;  // Invariant: of every job of jobs_ that has a deadline, just that.
  std::unordered_map<LinkId, std::string> job_of_link_;  // of those that have joined
  // Links that have greeted and not joined yet; they have a while to do so.
  std::unordered_map<LinkId, Caller> newcomers_;
  Leases newcomer_leases_;
  // Of newcomers, by the number of the agent. What an agent shows before it joins is kept until
  // then, and forgotten with the link it came on.
  std::unordered_multimap<std::uint32_t, Introduction> introductions_;
  std::unordered_map<LinkId, std::uint32_t> introduced_;  // the same by link
  // By job, until StoreReady or StoreFailed: nobody is answered before there is a port to name.
  std::unordered_map<std::string, Beginning> awaiting_store_;
  // By address, which is all that is known of a stranger: one alone must not use up the daemon.
  Quota links_of_source_;
  JobPlaces places_;
  std::unordered_map<LinkId, std::string> counted_;  // the address of each link in the quota
  Exclusions exclusions_;  // a daemon's, for the jobs that are still to come
  EndedJobs ended_;        // Invariant: none of them is among jobs_.
};

static_assert(StateMachine<Coordinator>);

// What the next coordinator has to know, each under the name under which it is kept: of every job,
// and which hosts get no seat in those to come.

// Empty: there is nothing to know any more. `name`: that of a job that it knows, or
// hosts_record_name.
std::string record_bytes(const Coordinator& coordinator, const std::string& name,
                         const Moment& moment);
std::map<std::string, std::string> all_records(const Coordinator& coordinator,
                                               const Moment& moment);

}  // namespace cpprun
