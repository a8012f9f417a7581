// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The state machine of a coordinator (Coordinator), and the records that its successor needs.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "proto/clock.h"
#include "proto/state_machine.h"
#include "rendezvous/coordinator/admission_control.h"
#include "rendezvous/coordinator/bounds.h"
#include "rendezvous/coordinator/held_messages.h"
#include "rendezvous/coordinator/job_table.h"
#include "rendezvous/coordinator/leadership.h"
#include "rendezvous/job/job.h"
#include "rendezvous/store/store.h"

namespace cpprun {

// Limits on what unidentified peers can use of a daemon, so that resources remain for all others. A
// site may set them. In a coordinator of one job, they apply only to links that have not joined it.
struct CoordinatorLimits {
  std::size_t jobs = bounds::jobs_max;
  std::size_t jobs_per_source = bounds::jobs_per_source_max;
  std::size_t links_per_source = bounds::links_per_source_max;
  std::size_t newcomers = bounds::newcomers_max;  // links that get the full time to join
  Duration lease = bounds::daemon_lease_max;      // longest that a job's first node may ask for
  friend bool operator==(const CoordinatorLimits&, const CoordinatorLimits&) = default;
};

struct CoordinatorOptions {
  std::optional<JobTerms> only;  // the one job that this coordinator hosts; nothing: any job
  JobOptions options;            // for every job; store_port is the port of `only`
  CoordinatorLimits limits = {};
  bool keeps_records = false;  // writes records of its jobs for its successor
  bool stands_by = false;      // another coordinator runs `only` until it is lost
  bool follows = false;        // is one of several daemons, and follows until it receives Leads
  // The agent that started this daemon, on the same host. While this daemon leads, that agent's
  // node has no takeover window: launcher/agent/coordinator_link.h.
  std::optional<RoundVotes::Agent> own_agent = {};
};

// The daemon as one state machine: its jobs, the links that belong to each, and each job's store.
// It knows no socket: links are numbers, time is an argument, and the actions to take are returned
// as a list.
//
// In cpprun it hosts one job, known from the start, and rejects all others. In cpprund the first
// node that names a job creates it on that node's terms. The job gets a store with its own port and
// is deleted when its last node has left.
//
// A node may also run a coordinator as a standby (StandbyElection). It has no job, only the record
// that the job's coordinator replicates to it. It takes over when enough of the job's nodes have
// lost that coordinator. A daemon may also be one of several (DaemonRole): one leads, and the
// others redirect agents to it.
//
// Requests of store clients are not events. They go to the job's Store directly (`store`), because
// nothing may stand between at a million requests a second. A client is checked once, when it
// connects (`admit`).
class Coordinator {
 public:
  // --- events ---
  // A link was opened by an agent that has sent the preamble.
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
    bool broken = false;  // the link broke, or its node may have missed something: it may reconnect
  };
  // The replies to OpenStore.
  struct StoreReady {
    std::string job;
    int port = 0;
  };
  struct StoreFailed {
    std::string job;
    std::string reason;
  };

  // The agent in the coordinator's own process cannot join yet. `why` is a clause for the other
  // nodes.
  struct MasterWaits {
    std::string why;
  };

  // A worker has used this job's store for the first time in its round. Repeats have no effect.
  struct StoreAsked {
    std::string job;
  };
  // Comes before any node connects. In a coordinator of one job: another program in this process
  // has led that job until now, and its store is known.
  using Recovered = RecoveredJob;
  // The excluded hosts of the previous coordinator, which this one adopts.
  struct HostsExcluded {
    std::vector<Exclusions::Entry> hosts;
  };
  // --- events of a standby ---
  // The latest record from the job's coordinator. The job's nodes count as links from `first_link`
  // on until they connect here.
  struct RecordReceived {
    JobRecord record;
    LinkId first_link;
  };
  // The agent in this process has lost the job's coordinator in the round of `own.vote`, and votes
  // for this standby. Without a vote it follows that coordinator again, unless that one is leaving
  // and has transferred leadership of its round to this one.
  struct VoteRequest {
    link::Join own;
    bool is_transfer = false;
  };

  // --- events of one of several daemons ---
  // This daemon is now the leader, in the given epoch. It has no jobs except those in the Recovered
  // events that follow. `members` is sent to agents: the daemons' addresses, with its own first,
  // and how long a node's workers live on if the leader is lost.
  struct Leads {
    link::Members members;
  };
  // Another daemon leads, at the given address, or no leader is known. This daemon's jobs continue
  // at the leader, and it no longer sends anything about them.
  using Follows = DaemonRole::Follows;
  // The leader has recovered all jobs: the agents that waited for it can join now.
  struct LetsIn {};
  // Sent while it leads: the daemons that agents can switch to have changed.
  struct MembersChanged {
    std::vector<std::string> places;
  };

  // A command from an operator. The reply carries the same ticket and comes before any other event
  // is handled. Only a handover takes a while: its reply follows HandedOver.
  struct Ordered {
    std::uint64_t ticket = 0;
    OperatorCommand command;
  };
  // The reply to HandOver. Another daemon may be the leader by now.
  struct HandedOver {
    std::uint64_t ticket = 0;
    OperatorCommand command;
    CommandResult outcome;
  };

  // A client reads the status of this job, or of all jobs if none is named.
  struct LookedAt {
    std::optional<std::string> job;
  };

  using Event = std::variant<Opened, Said, Closed, StoreReady, StoreFailed, MasterWaits, StoreAsked,
                             Recovered, HostsExcluded, RecordReceived, VoteRequest, Leads, Follows,
                             LetsIn, MembersChanged, Ordered, HandedOver, LookedAt>;
  using Action = coordinator::Action;
  using Actions = coordinator::Actions;

  explicit Coordinator(CoordinatorOptions options);

  Actions handle(TimePoint now, const Event& event);
  Actions advance(TimePoint now);
  std::optional<TimePoint> next_deadline() const;
  // Returns the invariant that is violated, if any.
  std::optional<std::string> check() const { return jobs_.check(); }

  // The seat whose workers reach their job's store through a link.
  struct Seat {
    std::string job;
    RoundNumber round;
    GroupRank group_rank;
    friend bool operator==(const Seat&, const Seat&) = default;
  };
  // Nothing if the link belongs to no node with a seat in a round, or if the job's store is not
  // local.
  std::optional<Seat> seat_of(LinkId link) const;
  // Whether a store client at this numeric address may use the job's store. If not, returns the
  // reason.
  Result<void> admit(const std::string& job, const std::string& peer) const;
  // Requires `knows(job)`, which holds from StoreReady, or from the start, until the job is
  // deleted.
  Store& store(const std::string& job) { return jobs_.at(job).store; }
  bool knows(const std::string& job) const { return jobs_.find(job) != nullptr; }
  std::size_t job_count() const { return jobs_.all().size(); }
  // The job that this link has joined, or null.
  const std::string* job_of(LinkId link) const { return jobs_.job_of(link); }
  // For status requests. Null if there is no job of that name.
  const Job* find(const std::string& job) const;
  // The owner of a job, also while its store is being opened. Nothing if there is no job of that
  // name.
  std::optional<std::string> owner_of(const std::string& job) const { return jobs_.owner_of(job); }
  // At most `jobs_max` jobs whose names come after `name`, in order of name. If `owner` is given,
  // only that owner's jobs.
  std::vector<const Job*> jobs_after(const std::string& name, std::size_t jobs_max,
                                     const std::optional<std::string>& owner = {}) const {
    return jobs_.after(name, jobs_max, owner);
  }
  // What a successor has to know of a job. Requires `knows(job)`.
  JobRecord record_of(const std::string& job) const;
  // The hosts that get no seat in future jobs; a successor needs them too.
  const std::vector<Exclusions::Entry>& excluded_hosts() const { return exclusions_.entries(); }
  // It is still a standby, waiting to take over another coordinator's job.
  bool stands_by() const { return election_.has_value(); }
  // It is one of several daemons and not the leader.
  bool follows() const { return role_.following().has_value(); }
  // The epoch in which it leads. Nothing if it does not lead, or is not one of several daemons.
  std::optional<std::uint64_t> epoch() const {
    return role_.members() ? std::optional(role_.members()->epoch) : std::nullopt;
  }
  // How a daemon's last jobs ended.
  const EndedJobs& ended() const { return ended_; }
  // The one hosted job is over, and all connected nodes have been notified.
  bool done() const;

 private:
  void on(TimePoint now, const Opened& event, Actions& actions);
  void on(TimePoint now, const Said& event, Actions& actions);
  void on(TimePoint now, const Closed& event, Actions& actions);
  void on(TimePoint now, const StoreReady& event, Actions& actions);
  void on(TimePoint now, const StoreFailed& event, Actions& actions);
  void on(TimePoint now, const MasterWaits& event, Actions& actions);
  void on(TimePoint now, const StoreAsked& event, Actions& actions);
  void on(TimePoint now, const Recovered& event, Actions& actions);
  void on(TimePoint now, const HostsExcluded& event, Actions& actions);
  void on(TimePoint now, const RecordReceived& event, Actions& actions);
  void on(TimePoint now, const VoteRequest& event, Actions& actions);
  void on(TimePoint now, const Leads& event, Actions& actions);
  void on(TimePoint now, const Follows& event, Actions& actions);
  void on(TimePoint now, const LetsIn& event, Actions& actions);
  void on(TimePoint now, const MembersChanged& event, Actions& actions);
  void on(TimePoint now, const Ordered& event, Actions& actions);
  void on(TimePoint now, const HandedOver& event, Actions& actions);
  void on(TimePoint now, const LookedAt& event, Actions& actions);

  void answer(TimePoint now, const Caller& caller, const link::WhoHosts& question,
              Actions& actions);
  void hear_leader(TimePoint now, const Caller& caller, const link::WhoHosts& leader,
                   Actions& actions);
  void introduce(const Caller& caller, const link::WhoHosts& agent, Actions& actions);
  void welcome(Job& job, const JoinRequest& request, Actions& actions);

  void join(TimePoint now, const Caller& caller, const link::Join& join, Actions& actions);
  void begin_job(TimePoint now, const Caller& caller, const link::Join& join, Actions& actions);
  void enter(TimePoint now, JobTable::Entry& entry, const JoinRequest& request, Actions& actions);
  void turn_away(const Caller& caller, const link::Join& join, Actions& actions) const;
  // The options of a job whose first node is `first`.
  JobOptions options_of(const link::Join& first, int store_port) const;

  void hear(TimePoint now, const Said& event, Actions& actions);
  void sign_notes(const std::string& job, std::size_t said_before, Actions& actions) const;
  void look_after(const std::string& job, std::size_t said_before, Actions& actions);
  void forget(const std::string& job, const std::string& why, Actions& actions);
  bool make_place(Actions& actions);

  void ask_standby(TimePoint now, const Caller& caller, const link::Join& join, Actions& actions);
  void consider_leading(TimePoint now, Actions& actions);
  void lead(TimePoint now, bool is_transfer, Actions& actions);

  void drop_everything(const Follows& event, Actions& actions);
  bool turns_away(const Caller& caller, const link::Join& join, Actions& actions);
  static void redirect(LinkId link, const link::NotLeading& answer, Actions& actions);
  void tell_members(LinkId link, Actions& actions) const;
  bool is_own(const link::Join& join) const;

  static void keep(const std::string& job, JobTable::Entry& entry, std::size_t said_before,
                   Actions& actions);
  void recover(TimePoint now, const StoreReady& event, const JobTable::Opening& opening,
               Actions& actions);
  void recover_hosted(TimePoint now, const Recovered& event, Actions& actions);
  void keep_hosts(Actions& actions) const;

  CommandResult command(TimePoint now, const OperatorCommand& command, Actions& actions);
  CommandResult command_to_job(TimePoint now, const OperatorCommand& command, Actions& actions);
  CommandResult command_about_host(TimePoint now, const OperatorCommand& command, Actions& actions);
  CommandResult forget_on_command(TimePoint now, const OperatorCommand& command, Actions& actions);

  // The one hosted job is over, or continues elsewhere because this coordinator leaves.
  bool is_over() const;
  // Null in a standby.
  const JobTable::Entry* hosted() const;

  CoordinatorOptions options_;
  JobTable jobs_;
  std::optional<StandbyElection> election_;  // of a standby, until it leads
  std::optional<link::Led> led_;             // the leader of the hosted job, if not this one
  DaemonRole role_;
  Newcomers newcomers_;
  PendingMessages early_;  // messages of nodes whose job cannot process them yet
  JobAdmission places_;  // Invariant: a daemon's job has one, also while its store is being opened.
  Exclusions exclusions_;  // of a daemon, for future jobs
  EndedJobs ended_;        // Invariant: contains no job of jobs_.
};

static_assert(StateMachine<Coordinator>);

// The records for a successor, by the name under which each is kept: one for each job, and one for
// the hosts that get no seat in future jobs.

// `name` is a job for which `coordinator.knows(name)` holds, or hosts_record_name. Empty: there is
// nothing to keep any longer.
std::string record_bytes(const Coordinator& coordinator, const std::string& name,
                         const ClockPair& moment);
std::map<std::string, std::string> all_records(const Coordinator& coordinator,
                                               const ClockPair& moment);

}  // namespace cpprun
