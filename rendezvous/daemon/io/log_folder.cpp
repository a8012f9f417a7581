// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/io/log_folder.h"

#include <algorithm>
#include <string>
#include <utility>

namespace cpprun {

namespace {

// An entry of the ring; a log may be of any size.
constexpr std::size_t entry_bytes_max = 1024 * 1024;
// A log that is longer than this, and than its image twice over, begins anew.
constexpr std::uint64_t log_bytes_min = 4 * 1024 * 1024;

}  // namespace

LogFolder::LogFolder(StateFolder& folder, Callbacks callbacks)
    : folder_(folder), callbacks_(std::move(callbacks)) {
  folder_.on_logs(
      {.failed = [this](const std::string& job, const std::string& why) { broke(job, why); },
       .written = callbacks_.written,
       .again = [this] { try_again(); }});
}

void LogFolder::begin_log(const std::string& job, RoundNumber round) {
  Log& log = logs_[job];
  log.is_broken = log.is_renewed = false;
  log.begun = File{.generation = folder_.new_generation()};
  put(LogOrder::begin, job, *log.begun, log_file_head(round, folder_.syncs(), folder_.boot()));
}

void LogFolder::add_image(const std::string& job, std::string_view bytes) {
  add(job, &Log::begun, bytes);
}

void LogFolder::log_is_whole(const std::string& job) {
  const auto found = logs_.find(job);
  if (found == logs_.end() || !found->second.begun) return;
  Log& log = found->second;
  log.whole = std::exchange(log.begun, {});
  log.image_bytes = log.whole->bytes;
  put(LogOrder::whole, job, *log.whole, {});
  if (!log.is_broken) folder_.log_is_written(job);
}

void LogFolder::add_log(const std::string& job, std::string_view bytes) {
  add(job, &Log::whole, bytes);
  const auto found = logs_.find(job);
  if (found == logs_.end() || !found->second.whole || found->second.begun) return;
  Log& log = found->second;
  const bool is_long =
      log.whole->bytes > std::max(log_bytes_min, std::uint64_t{3} * log.image_bytes);
  if (is_long && !std::exchange(log.is_renewed, true)) callbacks_.shorten(job);
}

void LogFolder::adopt(const std::string& job, const StateFolder::FoundLog& found) {
  found_[job] = found;
}

// Nobody is told anything before its file says that somebody goes on with it: what is there would
// be taken for all there is.
bool LogFolder::go_on_log(const std::string& job) {
  const auto found = found_.extract(job);
  if (found.empty()) return false;
  Log& log = logs_[job];
  log = {};
  log.whole = File{.generation = found.mapped().generation, .bytes = found.mapped().size};
  put(LogOrder::again, job, *log.whole, std::to_string(found.mapped().size));
  if (log.is_broken) return false;
  callbacks_.wait_for(folder_.last_log_ticket());
  return true;
}

void LogFolder::end_log(const std::string& job) {
  if (logs_.contains(job) || found_.contains(job)) forget(job);
}

void LogFolder::forget(const std::string& job) {
  logs_.erase(job);
  found_.erase(job);
  const auto ticket = folder_.put_log(LogOrder::gone, job, 0, {});
  if (ticket && folder_.syncs()) callbacks_.wait_for(*ticket);
  folder_.log_is_written(job);
}

void LogFolder::add(const std::string& job, std::optional<File> Log::*to, std::string_view bytes) {
  const auto found = logs_.find(job);
  if (found == logs_.end()) return;
  std::optional<File>& file = found->second.*to;
  for (; file && !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), entry_bytes_max))) {
    put(LogOrder::add, job, *file, bytes.substr(0, entry_bytes_max));
  }
}

void LogFolder::put(LogOrder order, const std::string& job, File& file, std::string_view bytes) {
  file.bytes += bytes.size();
  const auto ticket = folder_.put_log(order, job, file.generation, bytes);
  if (!ticket) return broke(job, "its disk does not keep up with what the stores of jobs are told");
  if (folder_.syncs()) callbacks_.wait_for(*ticket);
}

// Nothing more of it is written. What there is of it leads nowhere, and is removed when another one
// is whole.
void LogFolder::broke(const std::string& job, const std::string& why) {
  const auto found = logs_.find(job);
  if (found == logs_.end() || std::exchange(found->second.is_broken, true)) return;
  found->second.whole.reset();
  found->second.begun.reset();
  found->second.is_renewed = false;
  folder_.log_broke(job, why);
}

void LogFolder::try_again() {
  if (!folder_.has_room_for_logs()) return;
  for (auto& [job, log] : logs_) {
    if (log.is_broken && !std::exchange(log.is_renewed, true)) callbacks_.renew(job);
  }
}

}  // namespace cpprun
