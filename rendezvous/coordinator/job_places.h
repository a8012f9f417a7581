// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The places that a daemon has for jobs, and who has begun the jobs that have them. Two rules keep
// some free for whoever comes: one source has its share at most, and the last quarter is for those
// who have few. And the name of a job whose place was given to another is kept for as long as its
// nodes may still compute: a new job of that name would have their ranks.

#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>

#include "proto/clock.h"
#include "proto/result.h"
#include "rendezvous/coordinator/agenda.h"
#include "rendezvous/coordinator/quota.h"

namespace cpprun {

class JobPlaces {
 public:
  struct Limits {
    std::size_t jobs = 0;
    std::size_t per_source = 0;
  };
  explicit JobPlaces(Limits limits) : limits_(limits), of_source_(limits.per_source) {}

  // Whether a node of that address may begin a job of that name, if there is a place; why not.
  Result<void> check(TimePoint now, const std::string& job, const std::string& address) const;
  // It has one from now on; to be asked before.
  void take(const std::string& address);
  void give_back(const std::string& address);
  bool is_full() const { return taken_ >= limits_.jobs; }

  // The job of that name has lost its place. The name, which counts for the address that began it
  // as the job did, is nobody's until then. False: too many names are kept, and nothing is done.
  bool keep_name(const std::string& job, const std::string& address, TimePoint until);
  void forget_names(TimePoint now);
  std::optional<TimePoint> next_to_forget() const { return names_.next(); }

 private:
  // For sources that have few, unless the site has said that one source may have all.
  std::size_t reserved() const { return limits_.per_source < limits_.jobs ? limits_.jobs / 4 : 0; }

  Limits limits_;
  std::size_t taken_ = 0;
  Quota of_source_;                                          // of places and of names that are kept
  Agenda names_;                                             // that are kept, and until when
  std::unordered_map<std::string, std::string> founder_of_;  // the address that began that job
};

}  // namespace cpprun
