// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/io/watch.h"

#include <fmt/format.h>
#include <poll.h>

#include <cerrno>
#include <chrono>
#include <ctime>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "launcher/control/event_stream.h"
#include "launcher/control/event_text_json.h"
#include "launcher/control/io/console.h"
#include "launcher/control/io/jobs.h"
#include "proto/watch_bounds.h"

namespace cpprun::io {

namespace {

constexpr const char* target = "/api/v1/events";
constexpr const char* target_once = "/api/v1/events?once";
constexpr unsigned fine = 200;
// Two looks at the same moment by the clock of the wall differ by less.
constexpr double clock_slack = 0.1;
// Between two looks for the job at whoever leads it next.
constexpr auto look_pause = std::chrono::milliseconds(200);

// Between two words a coordinator lets pass so much at most; then nobody is there any more.
constexpr int silence_milliseconds = static_cast<int>(
    std::chrono::duration_cast<std::chrono::milliseconds>(3 * bounds::watcher_keep_alive).count());

int give_up(const Setback& setback) {
  complain(setback.sentence);
  return setback.code;
}

int utc_offset() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  return ::localtime_r(&now, &local) == nullptr ? 0 : static_cast<int>(local.tm_gmtoff);
}

// Hears one event after the other, until `take` has had enough: then with an exit code.
class Listener {
 public:
  using Take = std::function<std::optional<int>(const std::string& line)>;

  static Attempt<Listener> begin(const Place& place, bool follows) {
    auto call =
        Call::begin(place, {.target = follows ? target : target_once}, bounds::ask_patience);
    if (!call) {
      return tl::unexpected(Setback{call.error().reason, control_code::unreachable});
    }
    return Listener(std::move(*call), place);
  }

  // The code; nothing: the other side has ended.
  Attempt<std::optional<int>> listen(const Take& take) {
    while (true) {
      const auto code = hear_once(take);
      if (!code) return tl::unexpected(code.error());
      if (code->has_value() || is_over_) return *code;
    }
  }

 private:
  Listener(Call call, const Place& place) : call_(std::move(call)), place_(place.text()) {}

  Setback lost(const std::string& why) const {
    return {fmt::format("{}: {}", place_, why), control_code::unreachable};
  }

  Attempt<std::optional<int>> hear_once(const Take& take) {
    pollfd watched{call_.fd(), POLLIN, 0};
    const int ready = ::poll(&watched, 1, silence_milliseconds);
    if (ready < 0 && errno == EINTR) return std::optional<int>();
    if (ready <= 0) return tl::unexpected(lost("it says nothing any more: is it stopped?"));
    const auto heard = call_.hear();
    if (!heard) return tl::unexpected(lost(heard.error().reason));
    is_over_ = !*heard || call_.answer().is_whole();
    const auto body = call_.take_body();
    if (!call_.answer().has_head()) return std::optional<int>();
    if (call_.answer().status() != fine) {
      if (!is_over_) return std::optional<int>();
      return tl::unexpected(Setback{error_in(body)});
    }
    const auto lines = stream_.hear(body);
    if (!lines) return tl::unexpected(lost(lines.error().reason));
    for (const auto& line : *lines) {
      if (const auto code = take(line)) return code;
    }
    return std::optional<int>();
  }

  Call call_;
  std::string place_;
  EventStream stream_;
  bool is_over_ = false;
};

// Where the events of that job are; of all jobs that are shown there, where none is named and there
// is but one place.
Attempt<Place> place_of_events(const Wish& wish, const Environment& environment, std::string& job) {
  if (wish.job.empty()) {
    FoundJobs found = find_jobs(wish, environment);
    if (found.places.size() == 1) return std::move(found.places.front());
  }
  auto chosen = find_job(wish, environment);
  if (!chosen) return tl::unexpected(chosen.error());
  job = chosen->job.id;
  return std::move(chosen->place);
}

}  // namespace

int show_events(const Wish& wish, const Environment& environment) {
  std::string job;
  const auto place = place_of_events(wish, environment, job);
  if (!place) return give_up(place.error());
  auto listener = Listener::begin(*place, wish.follows);
  if (!listener) return give_up(listener.error());
  const EventStyle style{.utc_offset_seconds = utc_offset(),
                         .names_job = job.empty(),
                         .canvas = canvas_of_stdout(environment)};
  const auto show = [&](const std::string& line) -> std::optional<int> {
    const auto event = event_view(line);
    const bool is_of_all = event && event->name == "leader_changed";
    if (!job.empty() && event && event->job != job && !is_of_all) return std::nullopt;
    const bool is_heard = print((wish.as_json ? line : event_text(line, style)) + "\n");
    return is_heard ? std::nullopt : std::optional(control_code::done);
  };
  const auto code = listener->listen(show);
  return code ? code->value_or(control_code::done) : give_up(code.error());
}

namespace {

// How it ended, or where the cpprund is that leads the job since.
struct Waited {
  std::optional<int> exit_code;
  std::string led_at = {};
};

Attempt<Waited> wait_once(const Wish& wish, const Environment& environment) {
  const auto chosen = find_job(wish, environment);
  if (!chosen) return tl::unexpected(chosen.error());
  const auto tell = [&](int exit_code, const std::string& reason) {
    if (wish.as_json) print(ending_json(chosen->job.id, exit_code, reason));
    return exit_code;
  };
  // First the stream, then the look: an end between the two is in one of them.
  auto listener = Listener::begin(chosen->place, true);
  if (!listener) return tl::unexpected(listener.error());
  const auto look = [&] { return body_of(chosen->place, {.target = chosen->target()}); };
  const auto details = look();
  if (!details) return tl::unexpected(details.error());
  const auto job = job_view(*details);
  if (!job) return tl::unexpected(Setback{job.error().reason});
  if (job->exit_code) return Waited{tell(*job->exit_code, job->reason)};
  complain(fmt::format("waiting for the end of {}", job->id));
  const double begun = job->since.value_or(0);
  std::string led_at;
  const auto take = [&](const std::string& line) -> std::optional<int> {
    const auto event = event_view(line);
    // The ring may still have the end of an earlier job of that name.
    if (!event || event->time < begun - clock_slack) return std::nullopt;
    if (!event->leader.empty() && !look()) {
      led_at = event->leader;
      return control_code::done;
    }
    const bool is_meant = event->is_end() && event->job == job->id;
    return is_meant ? std::optional(tell(event->exit_code, event->reason)) : std::nullopt;
  };
  const auto code = listener->listen(take);
  if (!code) return tl::unexpected(code.error());
  if (!led_at.empty()) return Waited{std::nullopt, led_at};
  if (code->has_value()) return Waited{**code};
  return tl::unexpected(
      Setback{fmt::format("{} has vanished before job \"{}\" was over: was it killed?",
                          chosen->place.text(), chosen->job.id),
              control_code::unreachable});
}

// The next one may have a socket here, and has the job a moment after it leads.
Attempt<Waited> wait_there(const Wish& wish, const Environment& environment,
                           const std::string& led_at) {
  Wish there = wish;
  if (const auto address = parse_endpoint(led_at, 0)) there.address = *address;
  const auto deadline = std::chrono::steady_clock::now() + bounds::ask_patience;
  while (true) {
    if (auto waited = wait_once(wish, environment)) return waited;
    auto waited = wait_once(there, environment);
    if (waited) return waited;
    if (std::chrono::steady_clock::now() >= deadline) {
      waited.error().sentence =
          fmt::format("the job is led at {} since: {}", led_at, waited.error().sentence);
      return waited;
    }
    std::this_thread::sleep_for(look_pause);
  }
}

}  // namespace

int wait_for_end(const Wish& wish, const Environment& environment) {
  auto waited = wait_once(wish, environment);
  while (waited && !waited->exit_code) waited = wait_there(wish, environment, waited->led_at);
  return waited ? *waited->exit_code : give_up(waited.error());
}

}  // namespace cpprun::io
