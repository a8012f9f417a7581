// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/io/state_recovery.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <utility>

#include "rendezvous/io/event_loop.h"
#include "rendezvous/job/job_record_json.h"

namespace cpprun {

namespace {

// Size limit of a ring entry. A log may have any size.
constexpr std::size_t entry_bytes_max = 1024 * 1024;
// A log is replaced if it is longer than this and has grown to three times its image.
constexpr std::uint64_t log_bytes_min = 4 * 1024 * 1024;

}  // namespace

LogDirectory::LogDirectory(StateJournal& directory, Callbacks callbacks)
    : directory_(directory), callbacks_(std::move(callbacks)) {
  directory_.on_logs(
      {.failed = [this](const std::string& job, const std::string& why) { broke(job, why); },
       .written = callbacks_.written,
       .again = [this] { try_again(); }});
}

void LogDirectory::begin_log(const std::string& job, RoundNumber round) {
  Log& log = logs_[job];
  log.is_broken = log.is_renewed = false;
  log.begun = File{.generation = directory_.new_generation()};
  put(StateEntry::begin, job, *log.begun,
      log_file_head(round, directory_.syncs(), directory_.boot()));
}

void LogDirectory::add_image(const std::string& job, std::string_view bytes) {
  add(job, &Log::begun, bytes);
}

void LogDirectory::log_is_whole(const std::string& job) {
  const auto found = logs_.find(job);
  if (found == logs_.end() || !found->second.begun) return;
  Log& log = found->second;
  log.whole = std::exchange(log.begun, {});
  log.image_bytes = log.whole->bytes;
  put(StateEntry::whole, job, *log.whole, {});
  if (!log.is_broken) directory_.log_is_written(job);
}

void LogDirectory::add_log(const std::string& job, std::string_view bytes) {
  add(job, &Log::whole, bytes);
  const auto found = logs_.find(job);
  if (found == logs_.end() || !found->second.whole || found->second.begun) return;
  Log& log = found->second;
  const bool is_long =
      log.whole->bytes > std::max(log_bytes_min, std::uint64_t{3} * log.image_bytes);
  if (is_long && !std::exchange(log.is_renewed, true)) callbacks_.shorten(job);
}

void LogDirectory::adopt(const std::string& job, const StateJournal::FoundLog& found) {
  found_[job] = found;
}

// Clients receive nothing until the file has a chunk that says the log was resumed. Otherwise the
// end chunk in it would still claim that the log is complete.
bool LogDirectory::go_on_log(const std::string& job) {
  const auto found = found_.extract(job);
  if (found.empty()) return false;
  Log& log = logs_[job];
  log = {};
  log.whole = File{.generation = found.mapped().generation, .bytes = found.mapped().size};
  put(StateEntry::again, job, *log.whole, std::to_string(found.mapped().size));
  if (log.is_broken) return false;
  callbacks_.wait_for(directory_.last_ticket());
  return true;
}

void LogDirectory::end_log(const std::string& job) {
  if (logs_.contains(job) || found_.contains(job)) forget(job);
}

void LogDirectory::forget(const std::string& job) {
  logs_.erase(job);
  found_.erase(job);
  const auto ticket = directory_.put_log(StateEntry::gone, job, 0, {});
  if (ticket && directory_.syncs()) callbacks_.wait_for(*ticket);
  directory_.log_is_written(job);
}

void LogDirectory::add(const std::string& job, std::optional<File> Log::*to,
                       std::string_view bytes) {
  const auto found = logs_.find(job);
  if (found == logs_.end()) return;
  std::optional<File>& file = found->second.*to;
  for (; file && !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), entry_bytes_max))) {
    put(StateEntry::add, job, *file, bytes.substr(0, entry_bytes_max));
  }
}

void LogDirectory::put(StateEntry order, const std::string& job, File& file,
                       std::string_view bytes) {
  file.bytes += bytes.size();
  const auto ticket = directory_.put_log(order, job, file.generation, bytes);
  if (!ticket) return broke(job, "the disk is too slow for the changes of the stores");
  if (directory_.syncs()) callbacks_.wait_for(*ticket);
}

// Stops writing the job's log. The files cannot be resumed from, and are removed once another log
// is complete.
void LogDirectory::broke(const std::string& job, const std::string& why) {
  const auto found = logs_.find(job);
  if (found == logs_.end() || std::exchange(found->second.is_broken, true)) return;
  found->second.whole.reset();
  found->second.begun.reset();
  found->second.is_renewed = false;
  directory_.log_broke(job, why);
}

void LogDirectory::try_again() {
  if (!directory_.has_room_for_logs()) return;
  for (auto& [job, log] : logs_) {
    if (log.is_broken && !std::exchange(log.is_renewed, true)) callbacks_.renew(job);
  }
}

namespace {

ClockPair moment() {
  return {
      .now = boot_now(),
      .wall = std::chrono::time_point_cast<WallTime::duration>(std::chrono::system_clock::now())};
}

bool is_of_later(const Error& error) {
  return error.reason.starts_with("is of version ");
}

}  // namespace

Result<void> StateRecovery::open(asio::io_context& context, HelperProcesses& side,
                                 const std::string& directory, bool is_synced) {
  if (directory.empty()) return {};
  auto opened = StateJournal::open(
      context, side, {.path = directory, .syncs = is_synced},
      [this](LogLevel level, const std::string& sentence) { log_.say(level, sentence); });
  if (!opened) return tl::unexpected(opened.error());
  path_ = directory;
  is_synced_ = is_synced;
  directory_ = *std::move(opened);
  return {};
}

Result<void> StateRecovery::load(CoordinatorServer& server) {
  if (!directory_) return {};
  keep_from(server);
  const auto of_later = [this](const Error& error) {
    return failure(fmt::format(
        "--state: a record in \"{}\" {}; use the cpprund that wrote it, or another directory",
        path_, error.reason));
  };
  std::set<std::string> jobs;
  for (auto& [number, bytes, log] : directory_->take_found()) {
    if (is_member_record(bytes)) {
      return failure(
          fmt::format("--state: \"{}\" has the jobs of a cluster (--etcd), which this cpprund must "
                      "not resume; use another directory, or delete this one",
                      path_));
    }
    if (is_hosts_record(bytes)) {
      auto hosts = read_hosts_record(bytes, moment());
      if (!hosts && is_of_later(hosts.error())) return of_later(hosts.error());
      if (!hosts) {
        directory_->set_aside(number, hosts.error().reason);
        continue;
      }
      hosts_left_ = *std::move(hosts);
      directory_->adopt(number, hosts_record_name);
      continue;
    }
    const ClockPair at = moment();
    auto record = read_job_record(bytes, at);
    if (!record && is_of_later(record.error())) return of_later(record.error());
    const bool is_twice = record && !jobs.insert(record->job()).second;
    if (!record || is_twice) {
      directory_->set_aside(number,
                            is_twice ? "is a second file of the same job" : record.error().reason);
      continue;
    }
    directory_->adopt(number, record->job());
    record->alive = writer_alive_at(*record, directory_->last_alive(), at);
    Left left{.record = *std::move(record), .store_log = {}, .log = {}};
    // A log of another round belongs to a store that no longer exists.
    if (log && log->round == left.record.round) {
      left.store_log = std::exchange(log->bytes, {});
      left.log = std::move(log);
    }
    left_.push_back(std::move(left));
  }
  return {};
}

// From now on, keeps what the server hands over and reports to the server how far that is written.
void StateRecovery::keep_from(CoordinatorServer& server) {
  directory_->on_change([this, &server] {
    server.kept(CommitSource::record, directory_->written_through());
    // No client waits for a disk that is known to have failed.
    if (!directory_->is_durable()) {
      server.kept(CommitSource::log, directory_->last_ticket());
    }
  });
  logs_ = std::make_unique<LogDirectory>(
      *directory_,
      LogDirectory::Callbacks{
          .wait_for =
              [this, &server](std::uint64_t ticket) {
                if (directory_->is_durable()) server.wait_for(CommitSource::log, ticket);
              },
          .written =
              [&server](std::uint64_t through) {
                server.kept(CommitSource::log, through);
                server.logs().resume_images();
              },
          .renew = [this, &server](const std::string& job) { server.logs().renew(*logs_, job); },
          .shorten = [this,
                      &server](const std::string& job) { server.logs().shorten(*logs_, job); }});
  server.logs().attach(*logs_);
}

void StateRecovery::recover(CoordinatorServer& server) {
  if (!directory_) return;
  const std::size_t count = left_.size();
  server.recover_hosts(std::exchange(hosts_left_, {}));
  for (Left& left : std::exchange(left_, {})) {
    if (left.log) logs_->adopt(left.record.job(), *left.log);
    server.recover(std::move(left.record), std::move(left.store_log));
  }
  log_.say(LogLevel::info, fmt::format("state directory \"{}\": resuming {} job{}", path_, count,
                                       count == 1 ? "" : "s"));
}

std::uint64_t StateRecovery::keep(const std::string& job, const std::string& record) {
  return to_wait_for(directory_->keep(job, record));
}

std::uint64_t StateRecovery::forget(const std::string& job) {
  return to_wait_for(directory_->forget(job));
}

// Returns 0, which means no wait, if the disk is known to have failed.
std::uint64_t StateRecovery::to_wait_for(std::uint64_t change) const {
  return is_synced_ && directory_->written_through() < change ? change : 0;
}

std::optional<bool> StateRecovery::is_durable() const {
  return directory_ ? std::optional(directory_->is_durable()) : std::nullopt;
}

}  // namespace cpprun
