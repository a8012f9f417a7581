// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The jobs that are found, and the one that is meant.

#include <string>
#include <vector>

#include "launcher/control/daemon_view.h"
#include "launcher/control/io/caller.h"
#include "launcher/control/job_view_json.h"
#include "launcher/control/overview.h"
#include "launcher/control/wish.h"
#include "proto/environment.h"
#include "proto/result.h"

namespace cpprun::io {

inline constexpr unsigned status_ok = 200;  // HTTP

// Why a command ends otherwise than it should: a sentence and the exit code.
struct Setback {
  std::string sentence;
  int code = control_code::refused;
  std::string hint = {};
};
// Prints the sentence and returns the exit code.
int give_up(const Setback& setback);
template <class T>
using Attempt = tl::expected<T, Setback>;

struct FoundJob {
  JobView job;
  Place place;
  std::string target() const;  // "/api/v1/jobs/a%2Fb"
};

struct FoundJobs {
  std::vector<FoundJob> jobs;
  std::vector<SeenAnswer> answers;  // as they came, for scripts
  std::vector<Place> places;        // that were asked
};

// The places that did not show their jobs.
std::vector<std::string> silent_places(const FoundJobs& found);

// Everything that is shown; what could not be seen is complained about, unless it is for scripts.
// Where a job is named that is not there, but a cpprund that stands by, the one that leads is asked
// as well.
FoundJobs find_jobs(const Wish& wish, const Environment& environment);
// The one that is meant. Its place alone where everything else does not matter.
Attempt<FoundJob> find_job(const Wish& wish, const Environment& environment);

// One of those that are found.
Attempt<FoundJob> pick_job(FoundJobs found, const Wish& wish, const Environment& environment);

struct FoundDaemon {
  DaemonView view;
  Place place;
  std::string text;  // as it came, for scripts
};
// It stands by, and the one that leads is among those.
bool is_led_by_one_of(const std::vector<FoundDaemon>& daemons, const FoundDaemon& standby);
// The daemons among those places that have answered.
std::vector<FoundDaemon> find_daemons(const FoundJobs& found);

// The body of a good answer, or why there is none.
Attempt<std::string> body_of(const Place& place, const http::Question& question);
// The pages of its nodes.
Attempt<std::vector<std::string>> node_pages(const FoundJob& job);

}  // namespace cpprun::io
