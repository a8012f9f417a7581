// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/io/commands.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "launcher/control/io/console.h"
#include "launcher/control/io/jobs.h"
#include "launcher/control/text.h"
#include "launcher/control/views.h"
#include "launcher/plan/io/host.h"
#include "rendezvous/status/bounds.h"

namespace cpprun::io {

namespace {

using std::chrono::steady_clock;

constexpr const char* target = "/api/v1/events";
constexpr const char* target_once = "/api/v1/events?once";
// Two wall-clock readings of the same moment differ by less than this.
constexpr double clock_slack = 0.1;
// The pause between two lookups of the job at its next leader.
constexpr auto look_pause = std::chrono::milliseconds(200);

// A coordinator sends a line more often than this.
constexpr auto silence =
    std::chrono::duration_cast<steady_clock::duration>(3 * bounds::watcher_keep_alive);
constexpr auto ask_time = std::chrono::duration_cast<steady_clock::duration>(bounds::ask_timeout);

// Passes events to `take` one by one, until that returns an exit code.
class Listener {
 public:
  using Take = std::function<std::optional<int>(const std::string& line)>;

  static Attempt<Listener> begin(const ControlEndpoint& place, bool follows) {
    const auto deadline = steady_clock::now() + ask_time;
    auto call = Call::begin(place, {.target = follows ? target : target_once}, deadline);
    if (!call) {
      return tl::unexpected(Setback{call.error().reason, control_code::unreachable});
    }
    return Listener(std::move(*call), place, follows, deadline);
  }

  // Whether a line was received.
  bool has_contact() const { return has_contact_; }
  // The exit code. None: the peer has closed the stream.
  Attempt<std::optional<int>> listen(const Take& take) {
    while (true) {
      const auto code = hear_once(take);
      if (!code) return tl::unexpected(code.error());
      if (code->has_value() || is_over_) return *code;
    }
  }

 private:
  Listener(Call call, const ControlEndpoint& place, bool follows, steady_clock::time_point deadline)
      : call_(std::move(call)), place_(place.text()), follows_(follows), deadline_(deadline) {}

  Setback lost(const std::string& why) const {
    return {fmt::format("{}: {}", place_, why), control_code::unreachable};
  }

  Attempt<std::optional<int>> hear_once(const Take& take) {
    pollfd watched{call_.fd(), POLLIN, 0};
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline_ - steady_clock::now()).count();
    const int ready = left <= 0 ? 0 : ::poll(&watched, 1, static_cast<int>(left));
    if (ready < 0 && errno == EINTR) return std::optional<int>();
    if (ready <= 0)
      return tl::unexpected(lost("no data on the event stream; the process may be suspended"));
    const auto heard = call_.hear();
    if (!heard) return tl::unexpected(lost(heard.error().reason));
    is_over_ = !*heard || call_.answer().is_whole();
    const auto body = call_.take_body();
    if (!call_.answer().has_head()) return std::optional<int>();
    if (call_.answer().status() != status_ok) {
      if (!is_over_) return std::optional<int>();
      return tl::unexpected(Setback{error_in(body)});
    }
    // Extend the deadline for the next line. Bytes without a complete line do not extend it.
    const bool has_line = body.find('\n') != std::string::npos;
    if (follows_ && (has_line || !is_answered_)) deadline_ = steady_clock::now() + silence;
    is_answered_ = true;
    has_contact_ = has_contact_ || has_line;
    const auto lines = stream_.hear(body);
    if (!lines) return tl::unexpected(lost(lines.error().reason));
    for (const auto& line : *lines) {
      if (const auto code = take(line)) return code;
    }
    return std::optional<int>();
  }

  Call call_;
  std::string place_;
  bool follows_;
  steady_clock::time_point deadline_;  // for the reply, and for each next line if `follows_`
  http::EventStream stream_;
  bool is_answered_ = false;
  bool has_contact_ = false;
  bool is_over_ = false;
};

// What is watched: one job, or all jobs of one endpoint.
struct Watched {
  std::string job = {};  // empty: all jobs
  steady_clock::duration lease = {};
  int contacts = 0;  // how many times it was found
  double since = 0;  // an earlier end belongs to a previous job of that name
};

// The job's lease plus the time of a request. After that no node waits for its host.
steady_clock::duration timeout_for(const Watched& watched) {
  return watched.lease + ask_time;
}

steady_clock::duration lease_of(const JobView& job) {
  constexpr double lease_seconds_max = 2'000'000;  // the largest lease a node can request
  const std::chrono::duration<double> lease(std::clamp(job.lease, 0.0, lease_seconds_max));
  return std::chrono::duration_cast<steady_clock::duration>(lease);
}

// The endpoint with the events of the job. If no job is named and there is only one endpoint: the
// events of all its jobs.
Attempt<ControlEndpoint> place_of_events(const ControlOptions& options,
                                         const Environment& environment, Watched& watched) {
  FoundJobs found = find_jobs(options, environment);
  if (options.job.empty() && found.places.size() == 1) {
    for (const auto& each : found.jobs) {
      watched.lease = std::max(watched.lease, lease_of(each.job));
    }
    return std::move(found.places.front());
  }
  auto chosen = pick_job(std::move(found), options, environment);
  if (!chosen) return tl::unexpected(chosen.error());
  watched = {.job = chosen->job.id, .lease = lease_of(chosen->job)};
  return std::move(chosen->place);
}

// The same command for a job already found. Quiet about what it does not find.
ControlOptions again(const ControlOptions& options, const std::string& job) {
  ControlOptions same = options;
  same.job = job;
  same.whole_name = !job.empty();
  same.as_json = true;
  return same;
}

struct KnownEnd {
  ControlEndpoint place;
  EventView end;
};

// A job that ended while there was no contact is not listed. But the endpoints that reply still
// have its end among their events.
std::optional<KnownEnd> end_of(const ControlOptions& options, const Environment& environment,
                               const Watched& watched) {
  if (watched.job.empty()) return std::nullopt;
  for (ControlEndpoint& place : find_jobs(options, environment).places) {
    auto listener = Listener::begin(place, /*follows=*/false);
    if (!listener) continue;
    std::optional<EventView> end;
    (void)listener->listen([&](const std::string& line) -> std::optional<int> {
      auto event = event_view(line);
      const bool is_meant = event && event->is_end() && event->job == watched.job;
      if (is_meant && event->time > watched.since) end = std::move(event);
      return std::nullopt;
    });
    if (end) return KnownEnd{std::move(place), *std::move(end)};
  }
  return std::nullopt;
}

// Reports that contact is lost, and retries until it is back or the time is over.
template <class Value>
Attempt<Value> retry(const Setback& lost, const Watched& watched,
                     const std::function<Attempt<Value>()>& attempt) {
  const auto timeout = timeout_for(watched);
  const double seconds = std::chrono::duration<double>(timeout).count();
  report_error(fmt::format("lost contact ({}); retrying for {:.1f} s", lost.sentence, seconds));
  const auto deadline = steady_clock::now() + timeout;
  while (true) {
    auto value = attempt();
    if (value) return value;
    if (steady_clock::now() >= deadline) break;
    std::this_thread::sleep_for(look_pause);
  }
  return tl::unexpected(
      Setback{fmt::format("lost contact for {:.1f} s ({})", seconds, lost.sentence),
              control_code::unreachable});
}

// Prints events, and tracks which of the printed jobs have not ended.
class Shown {
 public:
  Shown(const ControlOptions& options, const Environment& environment, std::string job)
      : as_json_(options.as_json),
        job_(std::move(job)),
        style_({.utc_offset_seconds = utc_offset_seconds(),
                .names_job = job_.empty(),
                .canvas = canvas_of_stdout(environment)}) {}

  std::optional<int> take(const std::string& line) {
    const auto event = event_view(line);
    const bool is_of_all = event && event->name == "leader_changed";
    if (!job_.empty() && event && event->job != job_ && !is_of_all) return std::nullopt;
    // After a reconnect some events may arrive twice.
    if (event && known_until_ && event->time <= *known_until_) return std::nullopt;
    if (event) note(*event);
    const bool is_heard = print((as_json_ ? line : event_text(line, style_)) + "\n");
    return is_heard ? std::nullopt : std::optional(control_code::done);
  }
  // Returns the time of the last event before.
  double reconnect() {
    known_until_ = last_;
    return last_;
  }
  // Whether all jobs have ended, so that the end of the stream is no loss of contact.
  bool is_over() const { return !over_.empty() && open_.empty(); }

 private:
  void note(const EventView& event) {
    last_ = std::max(last_, event.time);
    if (event.job.empty()) return;
    if (event.name == "job_started") over_.erase(event.job);
    if (event.is_end()) over_.insert(event.job);
    if (over_.contains(event.job)) {
      open_.erase(event.job);
    } else {
      open_.insert(event.job);
    }
  }

  bool as_json_;
  std::string job_;
  EventStyle style_;
  double last_ = 0;
  std::optional<double> known_until_;
  std::set<std::string> open_;
  std::set<std::string> over_;
};

}  // namespace

int show_events(const ControlOptions& options, const Environment& environment) {
  Watched watched;
  auto place = place_of_events(options, environment, watched);
  if (!place) return give_up(place.error());
  Shown shown(options, environment, watched.job);
  auto listener = Listener::begin(*place, options.follows);
  while (true) {
    if (!listener) return give_up(listener.error());
    const auto code = listener->listen([&](const std::string& line) { return shown.take(line); });
    if (code && code->has_value()) return **code;
    if (code && !options.follows) return control_code::done;
    if (options.follows && shown.is_over()) return control_code::done;
    const Setback lost =
        code ? Setback{place->text() + ": the event stream ended", control_code::unreachable}
             : code.error();
    const bool is_lost = lost.code == control_code::unreachable && listener->has_contact();
    if (!options.follows || !is_lost) return give_up(lost);
    watched.since = shown.reconnect();
    const ControlOptions same = again(options, watched.job);
    listener = retry<Listener>(lost, watched, [&]() -> Attempt<Listener> {
      Watched found;
      place = place_of_events(same, environment, found);
      if (!place) {
        const auto known = end_of(same, environment, watched);
        if (!known) return tl::unexpected(place.error());
        place = known->place;
      }
      return Listener::begin(*place, true);
    });
  }
}

namespace {

// How the job ended, or where its new leader is.
struct Waited {
  std::optional<int> exit_code;
  std::string led_at = {};
};

int tell_end(const ControlOptions& options, const std::string& job, int exit_code,
             const std::string& reason) {
  if (options.as_json) print(ending_json(job, exit_code, reason));
  return exit_code;
}

// `look_for`: how the job is found. `watched`: empty until the job has been found.
Attempt<Waited> wait_once(const ControlOptions& options, const ControlOptions& look_for,
                          const Environment& environment, Watched& watched) {
  const auto chosen = find_job(look_for, environment);
  if (!chosen) return tl::unexpected(chosen.error());
  // Open the stream before reading the job, so that an end in between is not missed.
  auto listener = Listener::begin(chosen->place, true);
  if (!listener) return tl::unexpected(listener.error());
  const auto look = [&] { return body_of(chosen->place, {.target = chosen->target()}); };
  const auto details = look();
  if (!details) return tl::unexpected(details.error());
  const auto job = job_view(*details);
  if (!job) return tl::unexpected(Setback{job.error().reason});
  if (job->exit_code) return Waited{tell_end(options, job->id, *job->exit_code, job->reason)};
  const bool is_first = watched.job.empty();
  // The event ring may still have the end of an earlier job of that name.
  const double since = job->since.value_or(0) - clock_slack;
  watched = {
      .job = job->id, .lease = lease_of(*job), .contacts = watched.contacts + 1, .since = since};
  report_error(is_first ? fmt::format("waiting for job \"{}\" to end", job->id)
                        : fmt::format("contact with job \"{}\" restored", job->id));
  std::string led_at;
  const auto take = [&](const std::string& line) -> std::optional<int> {
    const auto event = event_view(line);
    if (!event || event->time < since) return std::nullopt;
    if (!event->leader.empty() && !look()) {
      led_at = event->leader;
      return control_code::done;
    }
    const bool is_meant = event->is_end() && event->job == job->id;
    if (!is_meant) return std::nullopt;
    return tell_end(options, job->id, event->exit_code, event->reason);
  };
  const auto code = listener->listen(take);
  if (!code) return tl::unexpected(code.error());
  if (!led_at.empty()) return Waited{std::nullopt, led_at};
  if (code->has_value()) return Waited{**code};
  return tl::unexpected(Setback{fmt::format("{} closed the connection before job \"{}\" ended",
                                            chosen->place.text(), chosen->job.id),
                                control_code::unreachable});
}

// The new leader may have a socket here. It has the job a moment after taking over.
Attempt<Waited> wait_there(const ControlOptions& options, const Environment& environment,
                           const std::string& led_at, Watched& watched) {
  const ControlOptions here = again(options, watched.job);
  ControlOptions there = here;
  if (const auto address = parse_endpoint(led_at, 0)) there.address = *address;
  const auto deadline = steady_clock::now() + bounds::ask_timeout;
  while (true) {
    if (auto waited = wait_once(options, here, environment, watched)) return waited;
    auto waited = wait_once(options, there, environment, watched);
    if (waited) return waited;
    if (steady_clock::now() >= deadline) {
      waited.error().sentence =
          fmt::format("the leader of the job is now {}: {}", led_at, waited.error().sentence);
      return waited;
    }
    std::this_thread::sleep_for(look_pause);
  }
}

}  // namespace

int wait_for_end(const ControlOptions& options, const Environment& environment) {
  Watched watched;
  auto waited = wait_once(options, options, environment, watched);
  while (true) {
    if (waited && waited->exit_code) return *waited->exit_code;
    if (waited) {
      waited = wait_there(options, environment, waited->led_at, watched);
      continue;
    }
    const Setback lost = waited.error();
    if (watched.job.empty() || lost.code != control_code::unreachable) return give_up(lost);
    // A cpprund with --state comes back soon, and so does a job's next host.
    const ControlOptions same = again(options, watched.job);
    const auto next = retry<Attempt<Waited>>(lost, watched, [&]() -> Attempt<Attempt<Waited>> {
      const int before = watched.contacts;
      auto once = wait_once(options, same, environment, watched);
      // If contact was made and lost again, the timeout starts over.
      if (once || watched.contacts > before) return once;
      if (const auto known = end_of(same, environment, watched)) {
        const EventView& end = known->end;
        return Attempt<Waited>(Waited{tell_end(options, end.job, end.exit_code, end.reason)});
      }
      return tl::unexpected(once.error());
    });
    if (!next) return give_up(next.error());
    waited = *next;
  }
}

namespace {

using namespace std::chrono_literals;

constexpr auto between_looks = 1s;
constexpr int signal_code = 128;  // plus the signal's number, as in a shell

// The current view of the requested job, or of all jobs if none is requested.
Attempt<TopView> look(const ControlOptions& options, const Environment& environment) {
  ControlOptions quiet = options;
  quiet.as_json = true;  // errors are shown on the screen
  const FoundJobs all = find_jobs(quiet, environment);
  if (options.job.empty() && all.jobs.size() > 1) return TopView{.jobs = seen_jobs(all)};
  const auto found = find_job(quiet, environment);
  if (!found) return tl::unexpected(found.error());
  auto details = details_of(*found);
  if (!details) return tl::unexpected(details.error());
  return TopView{.jobs = {}, .job = std::move(details->job), .nodes = std::move(details->nodes)};
}

void print_once(const TopView& view, const Canvas& canvas) {
  auto lines = top_frame(view, {}, canvas, std::numeric_limits<std::size_t>::max() / 2);
  lines.pop_back();  // the keys
  for (const auto& line : lines) print(line + "\n");
}

// If there is no reply, the last screen stays for a while: the job may come back.
int run(LiveTerminal terminal, TopView view, const ControlOptions& options,
        const Environment& environment) {
  TopSettings settings;
  auto looked = steady_clock::now();
  while (true) {
    const auto now = steady_clock::now();
    if (now - looked >= between_looks) {
      auto seen = look(options, environment);
      looked = steady_clock::now();
      if (seen) {
        view = std::move(*seen);
      } else {
        view.trouble = seen.error().sentence;
      }
    }
    const Canvas canvas = canvas_of_stdout(environment);
    if (!terminal.show(top_frame(view, settings, canvas, height_of_terminal()))) {
      return control_code::done;
    }
    const auto left = between_looks - (steady_clock::now() - looked);
    const auto news = terminal.wait(std::max<Duration>(left, 0ms));
    if (news.signal != 0) return signal_code + news.signal;
    if (news.is_gone) return control_code::done;
    if (!news.keys.empty() && press(settings, news.keys) == KeyEffect::quit) {
      return control_code::done;
    }
  }
}

}  // namespace

int show_top(const ControlOptions& options, const Environment& environment) {
  auto view = look(options, environment);
  if (!view) return give_up(view.error());
  const bool is_live = ::isatty(STDOUT_FILENO) == 1 && ::isatty(STDIN_FILENO) == 1;
  if (!is_live) {
    print_once(*view, canvas_of_stdout(environment));
    return control_code::done;
  }
  auto terminal = LiveTerminal::take();
  if (!terminal) return give_up({terminal.error().reason});
  // Keep showing the same job, even if others start meanwhile.
  ControlOptions resolved = options;
  if (view->job) {
    resolved.job = view->job->id;
    resolved.whole_name = true;
  }
  return run(std::move(*terminal), std::move(*view), resolved, environment);
}

}  // namespace cpprun::io
