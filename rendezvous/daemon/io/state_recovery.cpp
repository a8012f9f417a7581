// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/io/state_recovery.h"

#include <fmt/format.h>

#include <chrono>
#include <set>
#include <utility>

#include "rendezvous/io/event_loop.h"
#include "rendezvous/job/exclusions_json.h"
#include "rendezvous/job/job_record_json.h"

namespace cpprun {

namespace {

Moment moment() {
  return {
      .now = boot_now(),
      .wall = std::chrono::time_point_cast<WallTime::duration>(std::chrono::system_clock::now())};
}

// Beside the jobs, none of which is called so.
constexpr const char* self_name = "\n";

bool is_of_later(const Error& error) {
  return error.reason.starts_with("is of version ");
}

}  // namespace

Result<void> StateRecovery::open(asio::io_context& context, SideProcesses& side,
                                 const std::string& folder, bool is_synced) {
  if (folder.empty()) return {};
  auto opened = StateFolder::open(
      context, side, {.path = folder, .syncs = is_synced},
      [this](LogLevel level, const std::string& sentence) { log_.say(level, sentence); });
  if (!opened) return tl::unexpected(opened.error());
  path_ = folder;
  is_synced_ = is_synced;
  folder_ = *std::move(opened);
  return {};
}

Result<void> StateRecovery::load(CoordinatorServer& server, const std::string& set) {
  if (!folder_) return {};
  keep_from(server);
  const auto of_later = [this](const Error& error) {
    return failure(fmt::format(
        "--state: a record in \"{}\" {}: use the cpprund that wrote it, or another folder", path_,
        error.reason));
  };
  std::set<std::string> jobs;
  for (auto& [number, bytes, log] : folder_->take_found()) {
    if (is_self_record(bytes)) {
      auto self = read_self_record(bytes);
      if (!self) {
        folder_->set_aside(number, self.error().reason);
        continue;
      }
      if (const auto why = objection_to(*self, set)) {
        return failure(fmt::format("--state: \"{}\" {}", path_, *why));
      }
      self_ = *std::move(self);
      folder_->adopt(number, self_name);
      continue;
    }
    if (is_hosts_record(bytes)) {
      auto hosts = read_hosts_record(bytes, moment());
      if (!hosts && is_of_later(hosts.error())) return of_later(hosts.error());
      if (!hosts) {
        folder_->set_aside(number, hosts.error().reason);
        continue;
      }
      hosts_left_ = *std::move(hosts);
      folder_->adopt(number, hosts_record_name);
      continue;
    }
    const Moment at = moment();
    auto record = read_job_record(bytes, at);
    if (!record && is_of_later(record.error())) return of_later(record.error());
    const bool is_twice = record && !jobs.insert(record->job()).second;
    if (!record || is_twice) {
      folder_->set_aside(
          number, is_twice ? "is of a job of which there is another file" : record.error().reason);
      continue;
    }
    folder_->adopt(number, record->job());
    record->alive = writer_alive_at(*record, folder_->last_alive(), at);
    Left left{.record = *std::move(record), .store_log = {}, .log = {}};
    // A log of another round is of a store that is gone.
    if (log && log->round == left.record.round) {
      left.store_log = std::exchange(log->bytes, {});
      left.log = std::move(log);
    }
    left_.push_back(std::move(left));
  }
  return {};
}

// What the server says from now on is kept, and it hears how far that has come.
void StateRecovery::keep_from(CoordinatorServer& server) {
  folder_->on_change([this, &server] {
    server.kept(Keeping::record, folder_->written_through());
    // Nobody waits for a disk of which it was said that it does not work.
    if (!folder_->is_durable()) {
      server.kept(Keeping::log, folder_->last_log_ticket());
      if (self_) keep_self(*self_);  // it has not everything any more
    }
  });
  logs_ = std::make_unique<LogFolder>(
      *folder_,
      LogFolder::Callbacks{
          .wait_for =
              [this, &server](std::uint64_t ticket) {
                if (folder_->is_durable()) server.wait_for(Keeping::log, ticket);
              },
          .written =
              [&server](std::uint64_t through) {
                server.kept(Keeping::log, through);
                server.logs().resume_images();
              },
          .renew = [this, &server](const std::string& job) { server.logs().renew(*logs_, job); },
          .shorten = [this,
                      &server](const std::string& job) { server.logs().shorten(*logs_, job); }});
  server.logs().attach(*logs_);
}

void StateRecovery::keep_self(SelfRecord record) {
  if (!folder_) return;
  record.boot = folder_->boot();
  record.is_synced = is_synced_;
  // What could not be written is missing there.
  record.has_all = record.has_all && folder_->is_durable();
  if (self_ == record) return;
  folder_->keep_only(self_name, self_record_bytes(record));
  self_ = std::move(record);
}

bool StateRecovery::recover(CoordinatorServer& server) {
  if (!folder_) return false;
  const std::size_t count = left_.size();
  const bool has_any = count > 0 || !hosts_left_.empty();
  // That none are excluded is known better here than elsewhere, too.
  if (has_any) server.recover_hosts(std::exchange(hosts_left_, {}));
  for (Left& left : std::exchange(left_, {})) {
    if (left.log) logs_->adopt(left.record.job(), *left.log);
    server.recover(std::move(left.record), std::move(left.store_log));
  }
  log_.say(LogLevel::info, fmt::format("keeps what it has to know of its jobs in \"{}\"; {} of "
                                       "them {} to go on",
                                       path_, count, count == 1 ? "is" : "are"));
  return has_any;
}

void StateRecovery::forget_all() {
  if (!folder_) return;
  // First of all: half of it is not everything.
  if (self_ && self_->has_all) {
    SelfRecord self = *self_;
    self.has_all = false;
    keep_self(std::move(self));
  }
  hosts_left_.clear();
  for (const Left& left : std::exchange(left_, {})) {
    log_.say(LogLevel::info,
             fmt::format("--state: what \"{}\" has of job \"{}\" is of before another cpprund led, "
                         "and is forgotten",
                         path_, left.record.job()));
  }
  for (const std::string& job : folder_->kept()) {
    if (job == self_name) continue;
    if (logs_) logs_->forget(job);
    folder_->forget(job);
  }
}

std::uint64_t StateRecovery::keep(const std::string& job, const std::string& record) {
  return to_wait_for(folder_->keep(job, record));
}

std::uint64_t StateRecovery::forget(const std::string& job) {
  return to_wait_for(folder_->forget(job));
}

// Where it is not known to work nobody waits.
std::uint64_t StateRecovery::to_wait_for(std::uint64_t change) const {
  return is_synced_ && folder_->written_through() < change ? change : 0;
}

std::optional<bool> StateRecovery::is_durable() const {
  return folder_ ? std::optional(folder_->is_durable()) : std::nullopt;
}

}  // namespace cpprun
