// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/output/io/log_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <asio/post.hpp>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <utility>

#include "launcher/io/disk_helper.h"
#include "proto/bounds.h"
#include "proto/text.h"

namespace cpprun::io {

namespace {

// Precedes the bytes of one file in the pipe.
struct Head {
  std::uint32_t index = 0;
  std::uint32_t bytes = 0;
};

bool read_whole(int pipe, char* at, std::size_t count) {
  while (count > 0) {
    const auto got = ::read(pipe, at, count);
    if (got <= 0) return false;
    at += got;
    count -= static_cast<std::size_t>(got);
  }
  return true;
}

// Runs in the writer process.
void keep(const std::vector<LogWriter::OpenRequest>& requests, int words, int news) {
  std::vector<LogFile> files(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto number = static_cast<int>(i);
    const auto& request = requests[i];
    const bool opened = files[i].open(request.path, request.emptied, request.bytes_max);
    hand(news, number, opened ? 0 : errno, request.handed_over ? files[i].descriptor() : -1);
    if (request.handed_over) files[i].close();
  }
  Head head;
  std::string text;
  while (read_whole(words, reinterpret_cast<char*>(&head), sizeof head)) {
    text.resize(head.bytes);
    if (!read_whole(words, text.data(), text.size()) || head.index >= files.size()) return;
    files[head.index].write(
        text, [&](int error_number) { hand(news, static_cast<int>(head.index), error_number); });
  }
}

}  // namespace

LogWriter::LogWriter(asio::io_context& context, HelperProcesses& side,
                     std::vector<OpenRequest> requests, Duration timeout, Callbacks callbacks)
    : timer_(context),
      news_(context),
      callbacks_(std::move(callbacks)),
      requests_(std::move(requests)),
      opened_(requests_.size()) {
  const int error_number = start(side);
  ended_ = error_number != 0;
  for (auto& each : opened_) each.error_number = ended_ ? error_number : ETIMEDOUT;
  if (ended_) return;
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (std::size_t i = 0; i < opened_.size(); ++i) {
    auto handed = take_handed(way_.get(), deadline);
    if (!handed) break;
    opened_[i] = {.error_number = handed->error_number, .file = std::move(handed->file)};
  }
  words_ = std::make_unique<NonBlockingWriter>(
      context, pipe_.get(),
      NonBlockingWriter::Callbacks{.room = [this] { answers_again(); },
                                   .empty = [this] { words_are_out(); },
                                   .lost = [this](int) { process_ended(); }});
  news_.assign(::fcntl(way_.get(), F_DUPFD_CLOEXEC, 3));
  hear();
}

// Returns an errno; 0 on success.
int LogWriter::start(HelperProcesses& side) {
  int ends[2];
  auto way = make_way();
  if (!way || ::pipe2(ends, O_CLOEXEC) != 0) return errno;
  const FileDescriptor read_end{ends[0]};
  pipe_.reset(ends[1]);
  const int news = way->theirs.get();
  if (!side.start({ends[0], news}, [&] { keep(requests_, ends[0], news); })) return EAGAIN;
  way_ = std::move(way->mine);
  return 0;
}

void LogWriter::hear() {
  news_.async_wait(
      asio::posix::stream_descriptor::wait_read, [this](const asio::error_code& error) {
        if (error) return;
        bool is_over = false;
        const auto told = take_handed_now(way_.get(), is_over);
        const auto index = told ? static_cast<std::size_t>(told->number) : 0;
        if (told && index < requests_.size() && told->error_number != 0) {
          callbacks_.say(fmt::format(
              "cpprun: warning: cannot write \"{}\": {}; dropping output; the job continues\n",
              requests_[index].path, errno_text(told->error_number)));
        }
        if (!is_over) return hear();
        process_ended();
        if (callbacks_.ended) callbacks_.ended();
      });
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
  const Head head{static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(bytes.size())};
  std::string text(reinterpret_cast<const char*>(&head), sizeof head);
  text += bytes;
  words_->write(text);
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
  if (!words_ || words_->empty()) words_are_out();
}

// Posted, because the caller may be the writer that is destroyed here.
void LogWriter::words_are_out() {
  if (!ending_) return;
  asio::post(timer_.get_executor(), [this, alive = alive_] {
    if (!*alive) return;
    words_.reset();
    pipe_.reset();
  });
}

std::string LogWriter::place() const {
  return requests_.empty() ? ""
                           : std::filesystem::path(requests_.front().path).parent_path().string();
}

bool LogFile::open(const std::string& path, bool emptied, std::uint64_t bytes_max) {
  if (path.empty()) return true;
  path_ = path;
  bytes_max_ = bytes_max;
  const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (emptied ? O_TRUNC : 0);
  file_.reset(::open(path.c_str(), flags, 0644));
  struct stat facts {};
  bytes_ =
      file_ && ::fstat(file_.get(), &facts) == 0 ? static_cast<std::uint64_t>(facts.st_size) : 0;
  return bool(file_);
}

void LogFile::write(std::string_view bytes, const ErrorHandler& report_error) {
  while (file_ && bytes_max_ > 0 && bytes_ + bytes.size() > bytes_max_) {
    // Write whole lines as far as they fit. A line longer than the limit is cut.
    const auto room = bytes_max_ > bytes_ ? static_cast<std::size_t>(bytes_max_ - bytes_) : 0;
    const auto newline = bytes.substr(0, room).rfind('\n');
    const auto fits = newline != std::string_view::npos ? newline + 1 : bytes_ == 0 ? room : 0;
    if (!write_all(bytes.substr(0, fits), report_error) || !rotate(report_error)) return;
    bytes.remove_prefix(fits);
  }
  write_all(bytes, report_error);
}

bool LogFile::write_all(std::string_view bytes, const ErrorHandler& report_error) {
  while (file_ && !bytes.empty()) {
    const auto put = ::write(file_.get(), bytes.data(), bytes.size());
    if (put > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(put));
      bytes_ += static_cast<std::uint64_t>(put);
    } else if (errno != EINTR) {
      return refused(errno, report_error);
    }
  }
  return true;
}

bool LogFile::rotate(const ErrorHandler& report_error) {
  if (::rename(path_.c_str(), (path_ + ".1").c_str()) != 0) return refused(errno, report_error);
  file_.reset(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_TRUNC, 0644));
  bytes_ = 0;
  return file_ ? true : refused(errno, report_error);
}

bool LogFile::refused(int error_number, const ErrorHandler& report_error) {
  if (std::exchange(reported_, true)) return false;
  report_error(error_number);
  return false;
}

}  // namespace cpprun::io
