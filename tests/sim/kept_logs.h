// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The logs of stores as the process beside a simulated cpprund has them, whatever becomes of that.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "rendezvous/coordinator/io/store_logs.h"

namespace cpprun::sim {

class KeptLogs : public LogKeeper {
 public:
  struct Log {
    RoundNumber round{};
    std::string bytes;
    bool is_whole = false;
  };

  void begin_log(const std::string& job, RoundNumber round) override {
    begun_[job] = {.round = round};
  }
  void add_log(const std::string& job, std::string_view bytes) override {
    newest(job).bytes.append(bytes);
  }
  void log_is_whole(const std::string& job) override {
    Log& log = newest(job);
    log.is_whole = true;
    whole_[job] = log;
    begun_.erase(job);
  }
  bool go_on_log(const std::string& job) override { return found_.erase(job) != 0; }
  void end_log(const std::string& job) override {
    whole_.erase(job);
    begun_.erase(job);
  }

  // What the next one finds.
  std::optional<std::string> find(const std::string& job, RoundNumber round) {
    begun_.erase(job);
    const auto found = whole_.find(job);
    if (found == whole_.end() || found->second.round != round) return std::nullopt;
    found_.insert(job);
    return found->second.bytes;
  }

 private:
  Log& newest(const std::string& job) {
    const auto begun = begun_.find(job);
    return begun == begun_.end() ? whole_[job] : begun->second;
  }

  std::map<std::string, Log> whole_;
  std::map<std::string, Log> begun_;  // an image that is being made
  std::set<std::string> found_;       // by somebody who goes on with it
};

}  // namespace cpprun::sim
