// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The jobs of a coordinator (JobTable) with their deadlines (DeadlineQueue), the slots that they
// take in a daemon (JobAdmission), and how the last ones ended (EndedJobs).

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "proto/clock.h"
#include "proto/link/message.h"
#include "proto/rank.h"
#include "proto/result.h"
#include "rendezvous/coordinator/admission_control.h"
#include "rendezvous/job/job.h"
#include "rendezvous/status/snapshot.h"
#include "rendezvous/store/store.h"

namespace cpprun {

// A priority queue of named deadlines, as a heap that knows the position of each entry. Moving a
// deadline costs O(log n), and reading the next one O(1).
class DeadlineQueue {
 public:
  // Sets the deadline of `who`; nothing removes it.
  void plan(const std::string& who, std::optional<TimePoint> when);
  std::optional<TimePoint> next() const;
  std::optional<TimePoint> deadline_of(const std::string& who) const;
  // Removes and returns all entries that are due, earliest first. Equal deadlines are ordered by
  // name.
  std::vector<std::string> take_due(TimePoint now);
  std::size_t size() const { return heap_.size(); }

 private:
  using Indexes = std::unordered_map<std::string, std::size_t>;
  struct Entry {
    TimePoint when;
    Indexes::value_type* who;  // in indexes_, which has its index; the map never moves it
  };
  bool before(std::size_t left, std::size_t right) const;
  void swap(std::size_t left, std::size_t right);
  void restore_heap(std::size_t at);
  void take(std::size_t at);

  std::vector<Entry> heap_;  // Invariant: no entry is earlier than its parent at (index - 1) / 2.
  Indexes indexes_;          // index in heap_
};

// The daemon's job slots, and the address that started each job. Two rules keep slots free for
// newcomers: a source has a limit, and the last quarter of the slots is for sources with few jobs.
// When a job loses its slot, its name stays reserved for as long as its nodes may still compute,
// because a new job of that name would reuse their ranks.
class JobAdmission {
 public:
  struct Limits {
    std::size_t jobs = 0;
    std::size_t per_source = 0;
  };
  explicit JobAdmission(Limits limits) : limits_(limits), of_source_(limits.per_source) {}

  // Whether a node at `address` may start this job, provided that a slot is free. If not, returns
  // the reason.
  Result<void> check(TimePoint now, const std::string& job, const std::string& address) const;
  // Occupies a slot. Requires a successful check() and a free slot.
  void take(const std::string& address);
  void give_back(const std::string& address);
  bool is_full() const { return taken_ >= limits_.jobs; }

  // Frees the slot of this job but reserves its name until `until`. The name counts against the
  // quota of `address`, which started the job. Returns false, and changes nothing, if too many
  // names are reserved.
  bool keep_name(const std::string& job, const std::string& address, TimePoint until);
  void forget_names(TimePoint now);
  std::optional<TimePoint> next_to_forget() const { return names_.next(); }

 private:
  // Slots for sources with few jobs. None if the site allows one source to take all slots.
  std::size_t reserved() const { return limits_.per_source < limits_.jobs ? limits_.jobs / 4 : 0; }

  Limits limits_;
  std::size_t taken_ = 0;
  SourceLimit of_source_;                                    // counts job slots and reserved names
  DeadlineQueue names_;                                      // reserved names and when they expire
  std::unordered_map<std::string, std::string> founder_of_;  // the address that started that job
};

// Long enough for several Prometheus scrapes, and enough entries for the jobs that may end at the
// same time. An entry takes 2 KiB.
inline constexpr Duration ended_job_told = std::chrono::minutes(10);
inline constexpr std::size_t ended_jobs_told_max = 64;

// How a daemon's last jobs ended, for Prometheus, which scrapes four times a minute. The job itself
// is deleted with its last node. Entries are limited in time and number. They expire when read, so
// no timer is needed.
class EndedJobs {
 public:
  // Adds a job that has just ended. It replaces an ended job of the same name.
  void add(TimePoint now, JobSnapshot job);
  // A job of that name has started.
  void forget(const std::string& id);
  // In the order in which they ended.
  std::vector<JobSnapshot> told(TimePoint now) const;

 private:
  struct Ended {
    TimePoint at{};
    JobSnapshot job;
  };
  std::deque<Ended> ended_;  // Invariant: each name occurs once.
};

// An agent that wants to join a job.
struct JoinRequest {
  Caller caller;
  link::Join join;
};

// The record that another coordinator left of a job. The job's nodes count as links from
// `first_link` on until they reconnect.
struct RecoveredJob {
  JobRecord record;
  LinkId first_link;
  bool has_store = false;  // the contents of its round's store were recovered
};

// The jobs of a coordinator, by name, and the links that have joined one.
class JobTable {
 public:
  struct Entry {
    Job job;
    Store store;
    std::string founder;     // the address of the node that started the job; empty for a hosted job
    std::string owner;       // the owner of the secret which that node used
    std::uint64_t kept = 0;  // the value of Job::steps() when its record was last kept
    RoundNumber recovered_round{};  // the last round that an earlier leader sealed
  };
  // A job whose store is being opened. No node gets a reply before the store's port is known.
  struct Opening {
    std::string founder;
    std::string owner;
    std::vector<JoinRequest> nodes;
    std::optional<RecoveredJob> before = {};
  };
  // In no particular order. Invariant: an entry does not move while its job exists.
  using Jobs = std::unordered_map<std::string, std::unique_ptr<Entry>>;
  using Openings = std::unordered_map<std::string, Opening>;
  using Links = std::unordered_map<LinkId, std::string>;

  // --- jobs ---
  // Null if there is no job of that name.
  Entry* find(const std::string& id) const {
    const auto found = jobs_.find(id);
    return found == jobs_.end() ? nullptr : found->second.get();
  }
  // Requires that there is a job of that name.
  Entry& at(const std::string& id) const { return *jobs_.at(id); }
  Entry& add(const std::string& id, Entry entry);
  void erase(const std::string& id);
  const Jobs& all() const { return jobs_; }
  // The names of the jobs that are not over, in order.
  std::vector<std::string> running() const;
  // At most `jobs_max` jobs whose names come after `name`, in order of name. If `owner` is given,
  // only that owner's jobs.
  std::vector<const Job*> after(const std::string& name, std::size_t jobs_max,
                                const std::optional<std::string>& owner) const;

  // --- jobs that begin ---
  void open(const std::string& id, Opening opening) { openings_[id] = std::move(opening); }
  // Null if no store is being opened for that job.
  Opening* opening(const std::string& id);
  std::optional<Opening> take_opening(const std::string& id);
  const Openings& openings() const { return openings_; }
  // The owner of a job, also while its store is being opened.
  std::optional<std::string> owner_of(const std::string& id) const;

  // --- links ---
  void add_link(LinkId link, const std::string& id) { job_of_link_[link] = id; }
  // Returns the job that it had joined.
  std::optional<std::string> close_link(LinkId link);
  // The job that this link has joined, or null.
  const std::string* job_of(LinkId link) const;
  Entry* of_link(LinkId link) const {
    const std::string* const id = job_of(link);
    return id == nullptr ? nullptr : find(*id);
  }
  const Links& links() const { return job_of_link_; }

  // --- deadlines ---
  // The job's deadline may have changed.
  void plan(const std::string& id) { deadlines_.plan(id, at(id).job.next_deadline()); }
  std::optional<TimePoint> next_deadline() const { return deadlines_.next(); }
  std::vector<std::string> take_due(TimePoint now) { return deadlines_.take_due(now); }

  // The violated invariant, if any.
  std::optional<std::string> check() const;

 private:
  Jobs jobs_;
  Openings openings_;
  DeadlineQueue deadlines_;  // Invariant: holds the next deadline of each job that has one.
  Links job_of_link_;
};

}  // namespace cpprun
