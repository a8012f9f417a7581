// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Warm workers (--warm): a parent process has imported the modules that the workers need, computes
// nothing, and is forked for each worker instead of executing Python. Here are its source, the
// requests to it, and when it is started (WarmParentState). io/warm_parent.h performs it.
//
// A worker is forked twice, and the process in between exits at once. So the worker becomes a child
// of cpprun, a subreaper, and is supervised like every other worker.

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/plan/plan.h"
#include "proto/clock.h"
#include "proto/environment.h"

namespace cpprun {

// The program of the parent, for `python -c`. Runs in Python 3.9 and later.
extern const std::string_view warm_parent_source;

// How the parent of workers like this one is started. Its stdout is the socket for requests.
WorkerSpec warm_parent_spec(const WorkerSpec& worker, const std::vector<std::string>& modules,
                            bool has_one_worker);

// Its environment: that of the workers, without variables whose values differ between workers or
// rounds.
Environment warm_parent_environment(const WorkerSpec& worker, Environment inherited);

struct WarmRequestTerms {
  bool opens_out = false;  // the worker opens the file of its plan; otherwise it gets a descriptor
  bool opens_err = false;
  int agent = 0;  // pid of cpprun
  bool is_traceable = false;
};

// All that a forked worker has to know, as fields that end with a zero byte.
std::string warm_request(const WorkerSpec& spec, const Environment& inherited,
                         const WarmRequestTerms& terms);

// The pause before the parent is started, so that its imports do not slow down those of the first
// workers.
inline constexpr Duration warm_delay = std::chrono::seconds(2);
// How long the first workers wait for a parent from which they are to be forked.
inline constexpr Duration warm_wait_max = std::chrono::seconds(5);
// The pause before a parent that has exited is started again. Doubles each time.
inline constexpr Duration warm_pause_least = std::chrono::seconds(10);
inline constexpr Duration warm_pause_max = std::chrono::minutes(10);

// When the parent is started, and whether workers can be forked from it.
class WarmParentState {
 public:
  // With more workers than CPUs it pays to fork the first ones as well: the imports are done once.
  void begin_round(TimePoint now, std::size_t workers, std::size_t cpus);

  // When to start the parent; none: not.
  std::optional<TimePoint> due() const { return due_; }
  // Until when the workers wait for the parent; none: they do not.
  std::optional<TimePoint> awaited_until() const;

  void started();
  void ready() { phase_ = Phase::ready; }
  void ended(TimePoint now);
  // It can never be used.
  void give_up();

  // Why no worker can be forked now; empty: it can.
  std::string obstacle() const;
  // The note about workers that are executed for that reason; empty: this round has had one.
  std::string note(const std::string& why);

 private:
  enum class Phase { absent, importing, ready, given_up };

  Phase phase_ = Phase::absent;
  std::optional<TimePoint> due_;
  std::optional<TimePoint> awaited_until_;
  Duration pause_ = warm_pause_least;
  bool has_begun_ = false;      // the first round
  bool has_ended_ = false;      // a parent has exited
  bool is_first_round_ = true;  // nothing could be warm yet
  bool is_noted_ = false;       // in this round
};

}  // namespace cpprun
