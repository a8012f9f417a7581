// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/output/io/log_writer.h"

#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "launcher/output/bounds.h"
#include "proto/text.h"

namespace cpprun::io {

LogWriter::LogWriter(asio::io_context& context, HelperProcesses& side,
                     const std::vector<File>& files, Duration timeout, Callbacks callbacks)
    : timer_(context),
      callbacks_(std::move(callbacks)),
      opened_(files.size()),
      process_(FileWriterProcess::begin(side, files)) {
  const int error_number = errno;  // of begin()
  for (const File& each : files) paths_.push_back(each.path);
  ended_ = !process_;
  if (ended_) {
    for (auto& each : opened_) each.error_number = error_number;
    return;
  }
  opened_ = process_->await_open(timeout);
  serve(context);
}

LogWriter::LogWriter(asio::io_context& context, const Carried& carried, Callbacks callbacks)
    : timer_(context),
      callbacks_(std::move(callbacks)),
      paths_(carried.paths),
      opened_(carried.paths.size()),
      process_(FileWriterProcess::adopt(carried.process)) {
  serve(context);
  words_->write(carried.queue);
  if (words_->full() && !std::exchange(watching_, true)) watch_disk();
}

Result<LogWriter::Carried> LogWriter::carried() const {
  if (ended_ || ending_ || given_up_) {
    return failure(fmt::format("the log files in \"{}\" are not being written", place()));
  }
  return Carried{paths_, process_->carried(), words_->queued()};
}

void LogWriter::serve(asio::io_context& context) {
  words_ = std::make_unique<NonBlockingWriter>(
      context, process_->pipe(),
      NonBlockingWriter::Callbacks{.room = [this] { answers_again(); },
                                   .empty = [this] { words_are_out(); },
                                   .lost = [this](int) { process_ended(); }});
  process_->listen(context,
                   {.trouble = [this](std::size_t index, int error) { say_trouble(index, error); },
                    .ended =
                        [this] {
                          process_ended();
                          if (callbacks_.ended) callbacks_.ended();
                        }});
}

void LogWriter::say_trouble(std::size_t index, int error_number) {
  callbacks_.say(
      fmt::format("cpprun: warning: cannot write \"{}\": {}; dropping output; the job continues\n",
                  paths_[index], errno_text(error_number)));
}

// The process ended before `end` was called: later output is not written to files.
void LogWriter::process_ended() {
  if (std::exchange(ended_, true) || ending_) return;
  callbacks_.say(fmt::format(
      "cpprun: warning: the process that writes the log files in \"{}\" exited; further output "
      "goes to the console only; the job continues\n",
      place()));
  callbacks_.room();
}

void LogWriter::write(std::size_t index, std::string_view bytes) {
  if (bytes.empty() || !words_ || ending_ || ended_) return;
  if (given_up_) {
    lost_bytes_ += bytes.size();
    return;
  }
  words_->write(FileWriterProcess::message(index, bytes));
  if (words_->full() && !std::exchange(watching_, true)) watch_disk();
}

// A slow disk still makes some progress between two checks.
void LogWriter::watch_disk() {
  timer_.expires_after(bounds::disk_timeout_at_end);
  timer_.async_wait(
      [this, alive = alive_, before = words_->waiting()](const asio::error_code& cancelled) {
        if (cancelled || !*alive || !words_ || !words_->full()) return;
        if (words_->waiting() < before) return watch_disk();
        give_up();
      });
}

void LogWriter::give_up() {
  given_up_ = true;
  callbacks_.say(
      fmt::format("cpprun: warning: the disk of the log files in \"{}\" does not respond; dropping "
                  "output until it does; the job continues\n",
                  place()));
  callbacks_.room();
}

void LogWriter::answers_again() {
  timer_.cancel();
  watching_ = false;
  if (std::exchange(given_up_, false)) {
    callbacks_.say(
        fmt::format("cpprun: writes to the log files in \"{}\" resumed; {} bytes were dropped\n",
                    place(), std::exchange(lost_bytes_, 0)));
  }
  callbacks_.room();
}

void LogWriter::end() {
  ending_ = true;
  if (words_ && words_->empty()) words_are_out();
}

// The process sees the end of its pipe once the last copy is closed.
void LogWriter::words_are_out() {
  if (!ending_) return;
  words_->close();
  process_->end();
}

std::string LogWriter::place() const {
  return std::filesystem::path(paths_.front()).parent_path().string();
}

}  // namespace cpprun::io
