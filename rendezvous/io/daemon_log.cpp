#include "rendezvous/io/daemon_log.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>

namespace cpprun {
namespace {

void print(const std::string& line) {
  fmt::print(stderr, "cpprund: {}\n", line);
}

}  // namespace

void DaemonLog::write(const Note& note) {
  if (is_quiet_ || (note.ordinary && !is_verbose_)) return;
  const TimePoint now = std::chrono::steady_clock::now();
  tell_held_back(now);
  if (limiter_.pass(now, note.text)) {
    print(note.peer ? fmt::format("{} {}", note.peer->text(), note.text) : note.text);
  }
  arm();
}

void DaemonLog::tell_held_back(TimePoint now) {
  for (const std::string& line : limiter_.advance(now)) print(line);
}

void DaemonLog::arm() {
  const std::optional<TimePoint> deadline = limiter_.next_deadline();
  if (!deadline || deadline == armed_) return;
  armed_ = deadline;
  timer_.expires_at(*deadline);
  timer_.async_wait([this](const asio::error_code& error) {
    if (error) return;
    armed_.reset();
    tell_held_back(std::chrono::steady_clock::now());
    arm();
  });
}

}  // namespace cpprun
