// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/job_places.h"

#include <fmt/format.h>

#include <cassert>
#include <cmath>

#include "proto/bounds.h"

namespace cpprun {

Result<void> JobPlaces::check(TimePoint now, const std::string& job,
                              const std::string& address) const {
  if (const auto kept_until = names_.deadline_of(job)) {
    return failure(fmt::format(
        "job \"{}\" has lost its place here while none of its nodes was connected, and they may "
        "compute for {} s more: come again then, or take another --rdzv-id",
        job, std::ceil(in_seconds(*kept_until - now))));
  }
  const std::size_t has = of_source_.taken(address);
  if (has >= limits_.per_source) {
    return failure(fmt::format(
        "{} has begun {} jobs here that are not over, the limit of one address: start cpprund with "
        "a larger --max-jobs-per-address where that is too few",
        source_of(address), limits_.per_source));
  }
  if (taken_ + reserved() >= limits_.jobs && reserved() > 0 && has >= bounds::jobs_few) {
    return failure(fmt::format(
        "{} has begun {} jobs here that are not over, and the last {} of {} places are for "
        "addresses with fewer than {}: start cpprund with a larger --max-jobs",
        source_of(address), has, reserved(), limits_.jobs, bounds::jobs_few));
  }
  return {};
}

void JobPlaces::take(const std::string& address) {
  assert(!is_full());
  const bool may = of_source_.take(address);
  assert(may);
  static_cast<void>(may);
  ++taken_;
}

void JobPlaces::give_back(const std::string& address) {
  of_source_.give_back(address);
  --taken_;
}

bool JobPlaces::keep_name(const std::string& job, const std::string& address, TimePoint until) {
  if (names_.size() >= bounds::job_names_kept_max) return false;
  names_.plan(job, until);
  founder_of_[job] = address;
  --taken_;
  return true;
}

void JobPlaces::forget_names(TimePoint now) {
  for (const std::string& job : names_.take_due(now)) {
    of_source_.give_back(founder_of_.extract(job).mapped());
  }
}

}  // namespace cpprun
