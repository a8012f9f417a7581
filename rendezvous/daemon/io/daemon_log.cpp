// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/io/daemon_log.h"

#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <string>
#include <utility>

#include "proto/text.h"
#include "rendezvous/daemon/bounds.h"
#include "rendezvous/io/event_loop.h"

namespace cpprun {
namespace {

TimePoint now() {
  return std::chrono::steady_clock::now();
}

}  // namespace

DaemonLog::DaemonLog(asio::io_context& io, HelperProcesses& side, int descriptor,
                     const DaemonOptions& options)
    : most_(options.log_level),
      tells_clients_(!options.is_quiet),
      timer_(io, [this] { guarded([this] { advance(now()); }); }),
      file_writer_(FileWriterProcess::begin_for_file(io, side, descriptor, {})),
      writer_(io, file_writer_ ? file_writer_->pipe() : descriptor,
              {.room = {},
               .empty = [this] { guarded([this] { tell_lost_lines(); }); },
               .lost = {},
               .back = [this](std::uint64_t bytes) { guarded([&] { tell_lost_bytes(bytes); }); }}) {
}

// When memory runs out, a line that reports it would need more memory, so the loss is only counted.
template <class Action>
void DaemonLog::guarded(Action action) noexcept {
  try {
    action();
  } catch (const std::exception&) {
    ++lost_lines_;
  }
}

void DaemonLog::write(const Note& note) noexcept {
  guarded([&] { take(note); });
}

void DaemonLog::say(LogLevel level, std::string_view text) noexcept {
  guarded([&] {
    if (level <= most_) put(with_level(level, text));
  });
}

void DaemonLog::take(const Note& note) {
  const LogLevel level = note.ordinary ? LogLevel::debug : note.level;
  if (level > most_) return;
  if (!note.of_job && !tells_clients_ && level >= LogLevel::info) return;
  // Events of a job are always written, however frequent: they are the purpose of the log.
  const bool is_reader_behind = writer_.waiting() > bounds::log_behind_bytes;
  if (note.of_job || limiter_.pass(now(), note.text, is_reader_behind)) {
    put(with_level(level,
                   note.peer ? fmt::format("{} {}", note.peer->text(), note.text) : note.text));
  }
  timer_.arm(limiter_.next_deadline());
}

void DaemonLog::flush() noexcept {
  guarded([this] {
    // Last chance to report what was held back.
    advance(TimePoint::max());
    writer_.flush(bounds::log_flush_max);
    writer_.close();
    if (file_writer_) file_writer_->finish(bounds::log_flush_max);
  });
}

void DaemonLog::advance(TimePoint now) {
  for (const std::string& line : limiter_.advance(now)) say(LogLevel::info, line);
  timer_.arm(limiter_.next_deadline());
}

void DaemonLog::put(std::string_view text) {
  if (writer_.full()) {
    ++lost_lines_;
    return;
  }
  // Callers sanitize text from clients before they quote it. This is the last line of defence.
  writer_.write(fmt::format("{}cpprund: {}\n", log_time(wall_now()),
                            plain_line(text, bounds::log_line_bytes_max)));
}

void DaemonLog::tell_lost_lines() {
  if (lost_lines_ == 0) return;
  const std::uint64_t lost = std::exchange(lost_lines_, 0);
  say(LogLevel::warning,
      fmt::format("dropped {} log lines: the reader of this log is too slow", lost));
}

void DaemonLog::tell_lost_bytes(std::uint64_t bytes) {
  say(LogLevel::warning,
      fmt::format("lost {} bytes of this log: they could not be written", bytes));
}

}  // namespace cpprun
