// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/io/store_logs.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "rendezvous/store/store_sessions.h"

namespace cpprun {

StoreLogs::~StoreLogs() {
  // A half image holds its port.
  for (const auto& [job, log] : logs_) log->image.reset();
}

// --- keepers -------------------------------------------------------------------------------------

void StoreLogs::attach(LogKeeper& keeper) {
  if (!keepers_.insert(&keeper).second) return;
  for (const auto& [job, log] : logs_) {
    take_down(job, *log);
    log->wants_image.insert(&keeper);
  }
  go_on_soon();
}

void StoreLogs::detach(LogKeeper& keeper) {
  keepers_.erase(&keeper);
  for (const auto& [job, log] : logs_) {
    for (auto* const each : {&log->live, &log->wants_image, &log->image_for}) each->erase(&keeper);
    if (log->image && log->image_for.empty()) {
      log->image.reset();
      log->since_image.clear();
    }
    take_down(job, *log);
  }
  resume_images();  // It may be the one that had no room.
}

bool StoreLogs::is_whole_at(LogKeeper& keeper) const {
  return std::ranges::all_of(logs_,
                             [&](const auto& each) { return each.second->live.contains(&keeper); });
}

void StoreLogs::renew(LogKeeper& keeper, const std::string& job) {
  const auto found = logs_.find(job);
  if (found == logs_.end() || !keepers_.contains(&keeper)) return;
  Log& log = *found->second;
  log.live.erase(&keeper);
  // One that has not begun has everything still to come.
  if (log.image_for.contains(&keeper) && !log.image->at()) return;
  log.image_for.erase(&keeper);
  log.wants_image.insert(&keeper);
  go_on_soon();
}

void StoreLogs::shorten(LogKeeper& keeper, const std::string& job) {
  const auto found = logs_.find(job);
  if (found == logs_.end() || !found->second->live.contains(&keeper)) return;
  if (found->second->image_for.contains(&keeper)) return;
  found->second->wants_image.insert(&keeper);
  go_on_soon();
}

// --- rounds --------------------------------------------------------------------------------------

StoreLog* StoreLogs::log_of(const std::string& job) {
  const auto found = keepers_.empty() ? logs_.end() : logs_.find(job);
  return found == logs_.end() ? nullptr : &found->second->log;
}

// Whether what its clients say is written down: where somebody keeps it.
void StoreLogs::take_down(const std::string& job, Log& log) {
  const ListenerId listener = callbacks_.listener_of(job);
  StoreLog* const to = keepers_.empty() ? nullptr : &log.log;
  connections_.with_sessions(
      [&](StoreSessions& sessions) { sessions.keep_journal(listener.value, to); });
  routes_.keep_log(job, to);
}

void StoreLogs::begin(const std::string& job, RoundNumber round) {
  end(job);
  Log& log = *(logs_[job] = std::make_unique<Log>());
  log.round = round;
  log.live = keepers_;
  for (LogKeeper* const keeper : keepers_) {
    keeper->begin_log(job, round);
    keeper->log_is_whole(job);
  }
  take_down(job, log);
}

void StoreLogs::go_on(const std::string& job, RoundNumber round, const StoreReplay* replay) {
  const auto old = logs_.extract(job);
  Log& log = *(logs_[job] = std::make_unique<Log>());
  log.round = round;
  for (LogKeeper* const keeper : keepers_) {
    const bool has_it = replay != nullptr && keeper->go_on_log(job);
    (has_it ? log.live : log.wants_image).insert(keeper);
    if (!has_it) keeper->end_log(job);
  }
  if (!log.live.empty()) replay->rename(log.log);
  take_down(job, log);
  flush(job, log);
  go_on_soon();
}

void StoreLogs::end(const std::string& job) {
  const auto found = logs_.find(job);
  if (found == logs_.end()) return;
  const auto log = std::move(found->second);
  logs_.erase(found);
  leave(job, *log);
  for (LogKeeper* const keeper : keepers_) keeper->end_log(job);
}

void StoreLogs::end_all() {
  for (const auto& [job, log] : std::exchange(logs_, {})) leave(job, *log);
}

void StoreLogs::leave(const std::string& job, Log& log) {
  log.image.reset();
  connections_.with_sessions([&](StoreSessions& sessions) {
    sessions.keep_journal(callbacks_.listener_of(job).value, nullptr);
  });
  routes_.keep_log(job, nullptr);
}

// --- what was written ----------------------------------------------------------------------------

void StoreLogs::flush(const std::string& job) {
  const auto found = logs_.find(job);
  if (found != logs_.end()) flush(job, *found->second);
}

void StoreLogs::flush() {
  for (const auto& [job, log] : logs_) flush(job, *log);
}

void StoreLogs::flush(const std::string& job, Log& log) {
  if (!log.log.has_more()) return;
  const std::string bytes = log.log.take();
  if (log.log.is_lost()) {
    // Nothing that anybody has of it leads on from here.
    log.log.begin_anew();
    log.image.reset();
    log.since_image.clear();
    for (auto* const each : {&log.live, &log.image_for}) {
      log.wants_image.merge(*each);
      each->clear();
    }
    for (LogKeeper* const keeper : log.wants_image) keeper->end_log(job);
    return go_on_soon();
  }
  // Whoever has enough of it asks for an image from within. It goes on with the log it has until
  // that is whole: what is written down now is answered at once.
  for (LogKeeper* const keeper : std::set<LogKeeper*>(log.live)) keeper->add_log(job, bytes);
  if (log.image && log.image->at()) log.since_image += bytes;
}

// --- images --------------------------------------------------------------------------------------

void StoreLogs::go_on_soon() {
  if (std::exchange(is_going_on_, true)) return;
  callbacks_.soon([this, alive = std::weak_ptr(alive_)] {
    if (alive.expired()) return;
    is_going_on_ = false;
    go_on_with_images();
  });
}

void StoreLogs::go_on_with_images() {
  for (const auto& [job, log] : logs_) {
    make_images(job, *log);
    if (log->image && has_room(*log)) go_on_with_image(job, *log);
    const bool has_more = log->image || !log->wants_image.empty();
    if (has_more && has_room(*log)) go_on_soon();
  }
}

void StoreLogs::resume_images() {
  if (std::ranges::any_of(logs_, [](const auto& each) { return each.second->image.has_value(); })) {
    go_on_soon();
  }
}

// An image may be made faster than anybody writes it.
bool StoreLogs::has_room(const Log& log) {
  return !log.image || !log.image->at() ||
         std::ranges::all_of(log.image_for,
                             [](LogKeeper* keeper) { return keeper->has_room_for_image(); });
}

void StoreLogs::make_images(const std::string& job, Log& log) {
  if (log.image || log.wants_image.empty()) return;
  log.image_for = std::exchange(log.wants_image, {});
  log.image.emplace(StoreImage::Place{.connections = connections_,
                                      .routes = routes_,
                                      .listener = callbacks_.listener_of(job),
                                      .store = callbacks_.store_of(job),
                                      .job = job,
                                      .log = log.log});
}

void StoreLogs::go_on_with_image(const std::string& job, Log& log) {
  // What was written before the image is in it.
  flush(job, log);
  if (!log.image) return;
  const bool had_begun = log.image->at().has_value();
  const bool is_whole = log.image->go_on();
  if (!had_begun && log.image->at()) {
    for (LogKeeper* const keeper : log.image_for) keeper->begin_log(job, log.round);
  }
  if (log.image->is_lost()) {
    // There was no memory: another one is made.
    log.image.reset();
    log.since_image.clear();
    log.wants_image.merge(std::exchange(log.image_for, {}));
    return;
  }
  const std::string bytes = log.image->take();
  for (LogKeeper* const keeper : std::set<LogKeeper*>(log.image_for)) {
    keeper->add_image(job, bytes);
  }
  if (!is_whole) return;
  flush(job, log);
  log.image.reset();
  const std::string since = std::exchange(log.since_image, {});
  const std::set<LogKeeper*> have = std::exchange(log.image_for, {});
  log.live.insert(have.begin(), have.end());
  for (LogKeeper* const keeper : have) {
    if (!since.empty()) keeper->add_image(job, since);
    keeper->log_is_whole(job);
  }
}

}  // namespace cpprun
