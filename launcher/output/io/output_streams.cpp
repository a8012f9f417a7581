// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/output/io/output_streams.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace cpprun::io {

void AttemptFiles::open(const std::vector<WorkerSpec>& specs, Duration timeout,
                        bool others_remain) {
  if (!others_remain) finish();
  if (writer_) earlier_.push_back(std::exchange(writer_, nullptr));
  orders_.clear();
  const auto unused =
      std::ranges::partition(earlier_, [](const auto& each) { return each.use_count() > 1; });
  for (auto& each : unused) end(std::move(each));
  earlier_.erase(unused.begin(), unused.end());
  std::vector<LogWriter::File> orders;
  for (const auto& spec : specs) {
    for (const auto* plan : {&spec.out, &spec.err}) add(*plan, orders);
  }
  if (orders.empty()) return;
  writer_ = std::make_shared<LogWriter>(context_, side_, orders, timeout, callbacks_);
}

// One file for all streams with the same path, so that the size limit applies to it as a whole.
void AttemptFiles::add(const StreamPlan& plan, std::vector<LogWriter::File>& orders) {
  const auto add_one = [&](const std::string& path, bool emptied, bool handed_over) {
    if (path.empty() || !orders_.try_emplace(path, orders.size()).second) return;
    orders.push_back({.path = path,
                      .is_emptied = emptied,
                      .passed_back = handed_over,
                      .bytes_max = handed_over ? 0 : plan.file_bytes_max});
  };
  add_one(plan.file, true, plan.target == StreamTarget::file);
  add_one(plan.duplicate_file, false, false);
}

StreamFiles AttemptFiles::find(const StreamPlan& plan) {
  StreamFiles files;
  files.writer = writer_;
  const auto find_one = [&](const std::string& path, std::optional<std::size_t>& order) {
    const auto found = orders_.find(path);
    if (path.empty() || found == orders_.end() || files.error_number != 0) return;
    order = found->second;
    auto& opened = writer_->opened()[*order];
    files.error_number = opened.error_number;
    if (opened.file) files.own = std::move(opened.file);
  };
  find_one(plan.file, files.file);
  find_one(plan.duplicate_file, files.duplicates);
  return files;
}

void AttemptFiles::finish() {
  std::erase_if(finished_, [](const auto& each) { return each->ended(); });
  orders_.clear();
  if (writer_) end(std::exchange(writer_, nullptr));
  for (auto& each : std::exchange(earlier_, {})) end(std::move(each));
}

void AttemptFiles::end(std::shared_ptr<LogWriter> writer) {
  writer->end();
  finished_.push_back(std::move(writer));
}

bool AttemptFiles::all_written() const {
  return std::ranges::all_of(finished_, [](const auto& each) { return each->ended(); });
}

std::vector<std::string> AttemptFiles::give_up() {
  std::vector<std::string> places;
  for (const auto& each : std::exchange(finished_, {})) {
    if (!each->ended()) places.push_back(each->place());
  }
  return places;
}

Result<std::optional<LogWriter::Carried>> AttemptFiles::carried() const {
  if (!all_written()) return failure("the log files of the last round are still being written");
  if (!earlier_.empty()) {
    return failure("workers that were started earlier still write to their log files");
  }
  if (!writer_) return std::nullopt;
  auto carried = writer_->carried();
  if (!carried) return tl::unexpected<Error>(carried.error());
  return *std::move(carried);
}

void AttemptFiles::adopt(const LogWriter::Carried& carried) {
  for (std::size_t at = 0; at < carried.paths.size(); ++at) orders_[carried.paths[at]] = at;
  writer_ = std::make_shared<LogWriter>(context_, carried, callbacks_);
}

namespace {

constexpr int worker_side_flags = O_RDWR | O_NOCTTY | O_CLOEXEC;

// Opens it by its descriptor, which works in every mount namespace; by its path on kernels before
// 4.13.
int open_worker_side(int ours) {
#ifdef TIOCGPTPEER
  if (const int peer = ::ioctl(ours, TIOCGPTPEER, worker_side_flags); peer >= 0) return peer;
#endif
  std::array<char, 64> path{};
  if (::ptsname_r(ours, path.data(), path.size()) != 0) return -1;
  return ::open(path.data(), worker_side_flags);
}

}  // namespace

std::optional<WorkerTerminal> open_worker_terminal(int like) {
  termios settings{};
  if (::tcgetattr(like, &settings) != 0) return std::nullopt;
  WorkerTerminal made;
  made.ours.reset(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!made.ours || ::grantpt(made.ours.get()) != 0 || ::unlockpt(made.ours.get()) != 0) {
    return std::nullopt;
  }
  made.worker.reset(open_worker_side(made.ours.get()));
  if (!made.worker) return std::nullopt;
  // cpprun's own terminal already translates line ends; do not do it twice.
  settings.c_oflag &= ~static_cast<tcflag_t>(OPOST);
  if (::tcsetattr(made.worker.get(), TCSANOW, &settings) != 0) return std::nullopt;
  copy_terminal_size(like, made.worker.get());
  return made;
}

void copy_terminal_size(int from, int to) {
  winsize size{};
  // If the source has no size, leave the other unchanged.
  if (::ioctl(from, TIOCGWINSZ, &size) == 0) static_cast<void>(::ioctl(to, TIOCSWINSZ, &size));
}

bool same_file(int a, int b) {
  struct stat first {};
  struct stat second {};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

void Console::write(int speaker, std::string_view prefix, const Piece& piece) {
  std::string text;
  mux_.add(speaker, prefix, piece, text);
  writer_.write(text);
}

}  // namespace cpprun::io
