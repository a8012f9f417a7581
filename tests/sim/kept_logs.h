// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The logs of stores in the process beside a simulated cpprund, which survives it. Each log soon
// becomes long and is rewritten.

#include <functional>
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
    std::size_t image_bytes = 0;
  };

  void on_long(std::function<void(const std::string& job)> callback) {
    long_ = std::move(callback);
  }
  void clear() {
    whole_.clear();
    begun_.clear();
    found_.clear();
  }

  void begin_log(const std::string& job, RoundNumber round) override {
    begun_[job] = {.round = round};
  }
  void add_image(const std::string& job, std::string_view bytes) override {
    begun_[job].bytes.append(bytes);
  }
  bool has_room_for_image() override { return true; }
  void log_is_whole(const std::string& job) override {
    Log& log = whole_[job] = begun_.extract(job).mapped();
    log.image_bytes = log.bytes.size();
  }
  void add_log(const std::string& job, std::string_view bytes) override {
    Log& log = whole_[job];
    log.bytes.append(bytes);
    const bool is_long = log.bytes.size() > log_bytes_min + 2 * log.image_bytes;
    if (is_long && !begun_.contains(job)) long_(job);
  }
  bool go_on_log(const std::string& job) override { return found_.erase(job) != 0; }
  void end_log(const std::string& job) override {
    whole_.erase(job);
    begun_.erase(job);
  }

  // What the next cpprund finds.
  std::optional<std::string> find(const std::string& job, RoundNumber round) {
    begun_.erase(job);
    const auto found = whole_.find(job);
    if (found == whole_.end() || found->second.round != round) return std::nullopt;
    found_.insert(job);
    return found->second.bytes;
  }

 private:
  static constexpr std::size_t log_bytes_min = 500;

  std::function<void(const std::string& job)> long_;
  std::map<std::string, Log> whole_;
  std::map<std::string, Log> begun_;  // images in progress
  std::set<std::string> found_;       // logs that are to be resumed
};

}  // namespace cpprun::sim
