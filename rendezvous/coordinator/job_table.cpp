// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/job_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

#include "rendezvous/coordinator/bounds.h"

namespace cpprun {

void DeadlineQueue::plan(const std::string& who, std::optional<TimePoint> when) {
  const auto found = indexes_.find(who);
  if (!when) {
    if (found != indexes_.end()) take(found->second);
    return;
  }
  if (found == indexes_.end()) {
    heap_.push_back({*when, &*indexes_.emplace(who, heap_.size()).first});
    restore_heap(heap_.size() - 1);
    return;
  }
  heap_[found->second].when = *when;
  restore_heap(found->second);
}

std::optional<TimePoint> DeadlineQueue::deadline_of(const std::string& who) const {
  const auto found = indexes_.find(who);
  if (found == indexes_.end()) return std::nullopt;
  return heap_[found->second].when;
}

std::optional<TimePoint> DeadlineQueue::next() const {
  return heap_.empty() ? std::nullopt : std::optional(heap_.front().when);
}

std::vector<std::string> DeadlineQueue::take_due(TimePoint now) {
  std::vector<std::string> due;
  while (!heap_.empty() && heap_.front().when <= now) {
    due.push_back(heap_.front().who->first);
    take(0);
  }
  return due;
}

bool DeadlineQueue::before(std::size_t left, std::size_t right) const {
  const Entry& a = heap_[left];
  const Entry& b = heap_[right];
  return a.when != b.when ? a.when < b.when : a.who->first < b.who->first;
}

void DeadlineQueue::swap(std::size_t left, std::size_t right) {
  std::swap(heap_[left], heap_[right]);
  heap_[left].who->second = left;
  heap_[right].who->second = right;
}

// Moves an entry up past later parents, then down past earlier children. At most one of the two
// loops moves it.
void DeadlineQueue::restore_heap(std::size_t at) {
  while (at > 0 && before(at, (at - 1) / 2)) {
    swap(at, (at - 1) / 2);
    at = (at - 1) / 2;
  }
  while (true) {
    std::size_t first = at;
    for (const std::size_t child : {2 * at + 1, 2 * at + 2}) {
      if (child < heap_.size() && before(child, first)) first = child;
    }
    if (first == at) return;
    swap(at, first);
    at = first;
  }
}

void DeadlineQueue::take(std::size_t at) {
  const std::size_t last = heap_.size() - 1;
  if (at != last) swap(at, last);
  indexes_.erase(indexes_.find(heap_.back().who->first));
  heap_.pop_back();
  if (at < heap_.size()) restore_heap(at);
}

Result<void> JobAdmission::check(TimePoint now, const std::string& job,
                                 const std::string& address) const {
  if (const auto kept_until = names_.deadline_of(job)) {
    return failure(
        fmt::format("job \"{}\" was dropped after all of its nodes had disconnected; its workers "
                    "may still run for {} s: retry after that, or use another --rdzv-id",
                    job, std::ceil(in_seconds(*kept_until - now))));
  }
  const std::size_t has = of_source_.taken(address);
  if (has >= limits_.per_source) {
    return failure(fmt::format(
        "{} already has {} unfinished jobs here, the maximum per address; start cpprund "
        "with a larger --max-jobs-per-address",
        source_of(address), limits_.per_source));
  }
  if (taken_ + reserved() >= limits_.jobs && reserved() > 0 && has >= bounds::jobs_few) {
    return failure(fmt::format(
        "the last {} of {} job slots are kept for addresses with fewer than {} unfinished jobs, "
        "and {} already has {}; start cpprund with a larger --max-jobs",
        reserved(), limits_.jobs, bounds::jobs_few, source_of(address), has));
  }
  return {};
}

void JobAdmission::take(const std::string& address) {
  assert(!is_full());
  const bool may = of_source_.take(address);
  assert(may);
  static_cast<void>(may);
  ++taken_;
}

void JobAdmission::give_back(const std::string& address) {
  of_source_.give_back(address);
  --taken_;
}

bool JobAdmission::keep_name(const std::string& job, const std::string& address, TimePoint until) {
  if (names_.size() >= bounds::job_names_kept_max) return false;
  names_.plan(job, until);
  founder_of_[job] = address;
  --taken_;
  return true;
}

void JobAdmission::forget_names(TimePoint now) {
  for (const std::string& job : names_.take_due(now)) {
    of_source_.give_back(founder_of_.extract(job).mapped());
  }
}

void EndedJobs::add(TimePoint now, JobSnapshot job) {
  forget(job.terms.id);
  job.silence_max.reset();  // its nodes are no longer monitored
  ended_.push_back({now, std::move(job)});
  if (ended_.size() > ended_jobs_told_max) ended_.pop_front();
}

void EndedJobs::forget(const std::string& id) {
  std::erase_if(ended_, [&](const Ended& each) { return each.job.terms.id == id; });
}

std::vector<JobSnapshot> EndedJobs::told(TimePoint now) const {
  std::vector<JobSnapshot> jobs;
  for (const Ended& each : ended_) {
    if (now - each.at < ended_job_told) jobs.push_back(each.job);
  }
  return jobs;
}

JobTable::Entry& JobTable::add(const std::string& id, Entry entry) {
  return *jobs_.emplace(id, std::make_unique<Entry>(std::move(entry))).first->second;
}

void JobTable::erase(const std::string& id) {
  deadlines_.plan(id, std::nullopt);
  jobs_.erase(id);
}

std::vector<std::string> JobTable::running() const {
  std::vector<std::string> names;
  for (const auto& [id, entry] : jobs_) {
    if (!entry->job.over()) names.push_back(id);
  }
  std::ranges::sort(names);
  return names;
}

std::vector<const Job*> JobTable::after(const std::string& name, std::size_t jobs_max,
                                        const std::optional<std::string>& owner) const {
  std::vector<const Job*> jobs;
  for (const auto& [id, entry] : jobs_) {
    if (owner && entry->owner != *owner) continue;
    if (name.empty() || name < id) jobs.push_back(&entry->job);
  }
  const auto by_name = [](const Job* left, const Job* right) {
    return left->terms().id < right->terms().id;
  };
  const std::size_t count = std::min(jobs.size(), jobs_max);
  std::partial_sort(jobs.begin(), jobs.begin() + static_cast<std::ptrdiff_t>(count), jobs.end(),
                    by_name);
  jobs.resize(count);
  return jobs;
}

JobTable::Opening* JobTable::opening(const std::string& id) {
  const auto found = openings_.find(id);
  return found == openings_.end() ? nullptr : &found->second;
}

std::optional<JobTable::Opening> JobTable::take_opening(const std::string& id) {
  auto taken = openings_.extract(id);
  if (taken.empty()) return std::nullopt;
  return std::move(taken.mapped());
}

std::optional<std::string> JobTable::owner_of(const std::string& id) const {
  if (const Entry* const entry = find(id)) return entry->owner;
  const auto opening = openings_.find(id);
  if (opening != openings_.end()) return opening->second.owner;
  return std::nullopt;
}

std::optional<std::string> JobTable::close_link(LinkId link) {
  auto known = job_of_link_.extract(link);
  if (known.empty()) return std::nullopt;
  if (Opening* const begins = opening(known.mapped())) {
    std::erase_if(begins->nodes,
                  [link](const JoinRequest& each) { return each.caller.link == link; });
  }
  return std::move(known.mapped());
}

const std::string* JobTable::job_of(LinkId link) const {
  const auto found = job_of_link_.find(link);
  return found == job_of_link_.end() ? nullptr : &found->second;
}

std::optional<std::string> JobTable::check() const {
  for (const auto& [id, entry] : jobs_) {
    const auto broken_of = [&job = id](const std::string& what) {
      return fmt::format("job \"{}\": {}", job, what);
    };
    if (const auto broken = entry->job.check()) return broken_of(*broken);
    if (deadlines_.deadline_of(id) != entry->job.next_deadline()) {
      return broken_of("its deadline is not scheduled");
    }
    for (const auto& [link, member] : entry->job.round().members()) {
      if (!member->connected) continue;
      const std::string* const known = job_of(link);
      if (known == nullptr || *known != id) {
        return broken_of(fmt::format("the link of {} belongs to another job", name_of(*member)));
      }
    }
  }
  return std::nullopt;
}

}  // namespace cpprun
