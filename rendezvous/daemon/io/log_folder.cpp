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
  log = {.generation = folder_.new_generation()};
  put(LogOrder::begin, job, log, log_file_head(round, folder_.syncs(), folder_.boot()));
}

void LogFolder::add_log(const std::string& job, std::string_view bytes) {
  const auto found = logs_.find(job);
  if (found == logs_.end()) return;
  Log& log = found->second;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), entry_bytes_max))) {
    put(LogOrder::add, job, log, bytes.substr(0, entry_bytes_max));
  }
  const bool is_long =
      log.bytes > std::max(log_bytes_min, std::uint64_t{3} * log.image_bytes) && log.is_whole;
  if (is_long && !log.is_broken && !std::exchange(log.is_renewed, true)) callbacks_.renew(job);
}

void LogFolder::log_is_whole(const std::string& job) {
  const auto found = logs_.find(job);
  if (found == logs_.end()) return;
  Log& log = found->second;
  log.is_whole = true;
  log.image_bytes = log.bytes;
  put(LogOrder::whole, job, log, {});
  if (!log.is_broken) folder_.log_is_written(job);
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
  log = {.generation = found.mapped().generation, .bytes = found.mapped().size, .is_whole = true};
  put(LogOrder::again, job, log, std::to_string(found.mapped().size));
  if (log.is_broken) return false;
  callbacks_.wait_for(folder_.last_log_ticket());
  return true;
}

void LogFolder::end_log(const std::string& job) {
  const auto found = logs_.find(job);
  if (found == logs_.end()) return;
  put(LogOrder::gone, job, found->second, {});
  logs_.erase(found);
  folder_.log_is_written(job);
}

void LogFolder::put(LogOrder order, const std::string& job, Log& log, std::string_view bytes) {
  if (log.is_broken) return;
  log.bytes += bytes.size();
  const auto ticket = folder_.put_log(order, job, log.generation, bytes);
  if (!ticket) return broke(job, "its disk does not keep up with what the stores of jobs are told");
  if (folder_.syncs()) callbacks_.wait_for(*ticket);
}

// Nothing more of it is written. What there is of it leads nowhere, and is removed when another one
// is whole.
void LogFolder::broke(const std::string& job, const std::string& why) {
  const auto found = logs_.find(job);
  if (found == logs_.end() || std::exchange(found->second.is_broken, true)) return;
  folder_.log_broke(job, why);
}

void LogFolder::try_again() {
  if (!folder_.has_room_for_logs()) return;
  for (auto& [job, log] : logs_) {
    if (log.is_broken && !std::exchange(log.is_renewed, true)) callbacks_.renew(job);
  }
}

}  // namespace cpprun
