// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/report/io/output_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <asio/post.hpp>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "launcher/output/bounds.h"
#include "launcher/output/io/log_dir.h"
#include "launcher/plan/io/host.h"
#include "launcher/report/bounds.h"
#include "proto/text.h"
#include "rendezvous/io/event_loop.h"

namespace cpprun::io {

bool is_at_hand(const std::string& path) {
  return path.starts_with("/dev/") || path.starts_with("/proc/");
}

std::string leads_at_hand(std::string path) {
  if (is_at_hand(path)) return "";
  constexpr int links_max = 40;  // the kernel's limit
  for (int link = 0; link < links_max; ++link) {
    std::error_code none;
    const auto target = std::filesystem::read_symlink(path, none);
    if (none) return "";
    path = (std::filesystem::path(path).parent_path() / target).string();
    if (is_at_hand(path)) return path;
  }
  return "";
}

namespace {

// Pipes, devices and our own stdout or stderr are written in place. Replacing them by a new file
// would surprise the user.
bool is_special(const std::string& path, const OwnStreams& own) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return false;
  const OwnStreams::value_type there{facts.st_dev, facts.st_ino};
  return std::find(own.begin(), own.end(), there) != own.end() || !S_ISREG(facts.st_mode);
}

OwnStreams own_streams() {
  OwnStreams own;
  for (const int each : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat facts {};
    if (::fstat(each, &facts) == 0) own.emplace_back(facts.st_dev, facts.st_ino);
  }
  return own;
}

// The path that this process must open itself, because another process has other streams or because
// it is no file on a disk. Empty: there is none.
std::string path_at_hand(const std::string& path) {
  if (auto target = leads_at_hand(path); !target.empty()) return target;
  return is_special(path, {}) ? path : "";
}

}  // namespace

Result<EventFile> EventFile::open(const std::string& path, HelperProcesses& side) {
  EventFile events;
  events.path_ = path;
  const auto cannot = [&](const std::string& why) {
    return failure(fmt::format("--events: cannot write \"{}\": {}", path, why));
  };
  const auto at_hand = is_at_hand(path) ? path
                                        : side.ask([&] { return path_at_hand(path); },
                                                   bounds::disk_timeout_at_start);
  if (!at_hand) return cannot("its disk does not respond");
  if (!at_hand->empty()) {
    // Opens without waiting for a reader.
    constexpr int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK;
    events.at_hand_.reset(::open(at_hand->c_str(), flags, 0644));
    if (!events.at_hand_) return cannot(errno_text(errno));
    return events;
  }
  events.process_ = FileWriterProcess::begin(
      side, {{.path = path, .on_error = WrittenFile::OnError::keep_lines}});
  if (!events.process_) {
    return cannot((errno == EAGAIN ? "cannot start a process: " : "") + errno_text(errno));
  }
  const auto opened = events.process_->await_open(bounds::disk_timeout_at_start);
  const int error_number = opened.front().error_number;
  if (error_number == ETIMEDOUT) return cannot("its disk does not respond");
  if (error_number != 0) return cannot(errno_text(error_number));
  return events;
}

EventFile::Carried EventFile::carried() const {
  Carried carried{.path = path_, .at_hand = at_hand_.get(), .lost = lost_, .is_over = is_over_};
  if (process_) carried.process = process_->carried();
  if (service_) carried.queue = service_->writer.queued();
  return carried;
}

EventFile EventFile::adopt(Carried carried) {
  EventFile events;
  events.path_ = std::move(carried.path);
  events.at_hand_.reset(carried.at_hand);
  if (carried.process) events.process_ = FileWriterProcess::adopt(*carried.process);
  events.queue_before_ = std::move(carried.queue);
  events.lost_ = static_cast<std::size_t>(carried.lost);
  events.is_over_ = carried.is_over;
  return events;
}

void EventFile::serve(asio::io_context& context, Tell tell) {
  if (!*this) return;
  const NonBlockingWriter::Callbacks callbacks{
      .empty = [this] { all_is_sent(); },
      // The process reports its own errors.
      .lost = [this](int error_number) { process_ ? void() : report_error(error_number); }};
  service_.reset(new Service{.writer{context, descriptor(), callbacks, /*of_lines=*/!process_},
                             .timer = asio::steady_timer(context),
                             .tell = std::move(tell)});
  service_->writer.write(std::exchange(queue_before_, {}));
  if (!process_) return;
  process_->listen(context, {.trouble = [this](std::size_t, int error) { report_error(error); },
                             .ended = [this] { process_ended(); }});
}

void EventFile::process_ended() {
  if (finishing_) return end();
  if (!is_over_) report_error(EPIPE);
}

void EventFile::append(const std::string& line) {
  if (!service_ || is_over_ || finishing_ || line.empty()) return;
  auto& writer = service_->writer;
  const bool fits = writer.waiting() + line.size() <= bounds::events_waiting_bytes_max;
  if (!fits) ++lost_;
  // Even if it does not fit, the lines before it may.
  writer.write(!fits ? "" : process_ ? FileWriterProcess::message(0, line) : line);
}

void EventFile::finish(std::function<void()> done) {
  finishing_ = true;
  if (!service_) return done();
  service_->done = std::move(done);
  if (is_over_) return end();
  static_cast<void>(::fcntl(descriptor(), F_SETPIPE_SZ, static_cast<int>(bounds::pipe_bytes_max)));
  service_->writer.write("");
  // A pipe keeps its content for the reader, so only the writer process is waited for.
  if (!process_) return end();
  process_->stop_waiting();
  if (service_->writer.empty()) all_is_sent();
  service_->timer.expires_after(bounds::disk_timeout_at_end);
  service_->timer.async_wait([this](const asio::error_code& cancelled) {
    if (cancelled) return;
    service_->tell(fmt::format(
        "--events: the last events were not written to \"{}\": its disk has not responded for {} s",
        path_, bounds::disk_timeout_at_end.count()));
    end();
  });
}

// The process sees the end of its pipe once the last copy is closed.
void EventFile::all_is_sent() {
  if (!finishing_ || !process_) return;
  service_->writer.close();
  process_->end();
}

void EventFile::end() {
  service_->timer.cancel();
  if (service_->done) asio::post(service_->timer.get_executor(), std::exchange(service_->done, {}));
}

void EventFile::report_error(int error_number) {
  const auto cannot =
      fmt::format("--events: cannot write \"{}\": {}; ", path_, errno_text(error_number));
  if (!waiting_helps(error_number)) {
    if (!std::exchange(is_over_, true)) {
      service_->tell(cannot + "no further events are written; the job continues");
    }
    return;
  }
  service_->tell(
      fmt::format("{}buffering up to {} KiB of events until there is free space; the job continues",
                  cannot, bounds::events_waiting_bytes_max / 1024));
}

std::size_t EventFile::take_lost() {
  return service_ && service_->writer.empty() ? std::exchange(lost_, 0) : 0;
}

namespace {

tl::unexpected<Error> cannot_write_file(const std::string& flag, const std::string& path,
                                        int number) {
  return failure(fmt::format("{}: cannot write \"{}\": {}", flag, path, errno_text(number)));
}

std::string no_answer(const std::string& flag, const std::string& path) {
  return fmt::format("{}: cannot write \"{}\": its disk does not respond", flag, path);
}

// Checks whether a file of that name can be created. Leaves nothing behind.
Result<void> try_new_file(const std::string& flag, const std::string& path) {
  const auto tried = path + "." + random_token(4);
  const FileDescriptor file{::open(tried.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644)};
  if (!file) return cannot_write_file(flag, path, errno);
  ::unlink(tried.c_str());
  return {};
}

// Checks whether the existing file can be written. Does not wait for a pipe's reader.
int error_of_writing_to(const std::string& path) {
  const FileDescriptor file{::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK)};
  return file ? 0 : errno;
}

// The report is written to a temporary name and renamed, except for special files.
Result<void> try_report_at(const std::string& path, const OwnStreams& own) {
  if (!is_special(path, own)) return try_new_file("--report", path);
  const int wrong = error_of_writing_to(path);
  if (wrong != 0 && wrong != ENXIO) return cannot_write_file("--report", path, wrong);
  return {};
}

// Checks in the same way as EventFile opens it, but leaves no new file.
Result<void> try_events_at(const std::string& path) {
  const int wrong = error_of_writing_to(path);
  if (wrong == ENOENT) return try_new_file("--events", path);
  if (wrong != 0) return cannot_write_file("--events", path, wrong);
  return {};
}

// The following functions run in a helper process.

// Whether the file still has the text that we announced.
bool is_ours(const std::string& path, const std::string& announced) {
  if (announced.empty()) return true;
  const auto there = read_small_file(path);
  return !there || *there == announced;
}

// Gives the text that is now in the file.
Result<std::string> announce(const std::string& path, const OwnStreams& own,
                             const std::string& announced, const std::string& text) {
  if (is_special(path, own) || !is_ours(path, announced)) return announced;
  if (auto written = write_whole_file(path, text); !written) {
    return tl::unexpected(written.error());
  }
  return text;
}

Result<std::string> leave(const std::string& path, const OwnStreams& own,
                          const std::string& announced, const std::string& text,
                          const std::string& suffix) {
  if (!is_special(path, own)) {
    auto place = is_ours(path, announced) ? path : path + suffix;
    if (auto left = write_whole_file(place, text); !left) return tl::unexpected(left.error());
    return place;
  }
  constexpr int flags = O_WRONLY | O_APPEND | O_CLOEXEC | O_NONBLOCK;
  const FileDescriptor file{::open(path.c_str(), flags)};
  const auto written = file ? ::write(file.get(), text.data(), text.size()) : -1;
  if (written != static_cast<ssize_t>(text.size())) {
    return cannot_write_file("--report", path, written < 0 ? errno : ENOSPC);
  }
  return path;
}

}  // namespace

Result<OutputFiles> OutputFiles::open(const std::string& report_path,
                                      const std::string& events_path, HelperProcesses& side) {
  OutputFiles output_files;
  output_files.report_path_ = output_files.report_name_ = report_path;
  output_files.side_ = &side;
  if (!report_path.empty()) {
    output_files.own_ = own_streams();
    if (auto tried = output_files.try_report(); !tried) return tl::unexpected(tried.error());
  }
  if (!events_path.empty()) {
    auto opened = EventFile::open(events_path, side);
    if (!opened) return tl::unexpected(opened.error());
    output_files.events_ = std::move(*opened);
  }
  return output_files;
}

OutputFiles OutputFiles::adopt(Carried carried, HelperProcesses& side) {
  OutputFiles files;
  files.report_path_ = std::move(carried.report_path);
  files.report_name_ = std::move(carried.report_name);
  files.announced_ = std::move(carried.announced);
  files.side_ = &side;
  if (files.keeps_report()) files.own_ = own_streams();
  files.events_ = EventFile::adopt(std::move(carried.events));
  return files;
}

Result<void> OutputFiles::try_report() {
  const auto at_hand = ask(
      [&]() -> Result<std::string> {
        auto target = leads_at_hand(report_path_);
        if (!target.empty()) return target;
        if (auto tried = try_report_at(report_path_, own_); !tried) {
          return tl::unexpected(tried.error());
        }
        return "";
      },
      bounds::disk_timeout_at_start);
  if (!at_hand) return tl::unexpected(at_hand.error());
  if (at_hand->empty()) return {};
  // The helper process has other streams, so check here.
  report_path_ = *at_hand;
  return try_report_at(report_path_, own_);
}

Result<void> OutputFiles::try_events(const std::string& path, HelperProcesses& side) {
  if (path.empty()) return {};
  if (is_at_hand(path)) return try_events_at(path);
  const auto look = [&] {
    const auto tried = try_events_at(path);
    return tried ? answer_of("") : answer_of(tl::unexpected(tried.error()));
  };
  const auto tried =
      result_of(side.ask(look, bounds::disk_timeout_at_start), no_answer("--events", path));
  if (!tried) return tl::unexpected(tried.error());
  return {};
}

Result<std::string> OutputFiles::ask(const std::function<Result<std::string>()>& look,
                                     Duration timeout) const {
  if (is_at_hand(report_path_)) return look();
  return result_of(side_->ask([&] { return answer_of(look()); }, timeout),
                   no_answer("--report", report_path_));
}

void OutputFiles::serve(asio::io_context& context, EventFile::Tell tell) {
  events_.serve(context, std::move(tell));
  if (keeps_report() && !is_at_hand(report_path_)) {
    desk_ = std::make_unique<AsyncTask>(context, *side_, bounds::disk_timeout_at_end);
  }
}

std::string OutputFiles::line(WallTime time, const events::Event& event) {
  if (!event_log_) return {};
  return event_log_->line(time, event);
}

void OutputFiles::append(const std::string& line) {
  if (const auto lost = events_.take_lost(); lost > 0) {
    events_.append(this->line(wall_now(), events::EventsLost{lost}));
  }
  events_.append(line);
}

Result<void> OutputFiles::announce_report(const std::string& text) {
  if (!keeps_report()) return {};
  auto there = ask([&] { return announce(report_path_, own_, announced_, text); },
                   bounds::disk_timeout_at_start);
  if (!there) return tl::unexpected(there.error());
  announced_ = *std::move(there);
  return {};
}

void OutputFiles::announce_report_later(const std::string& text) {
  if (!desk_) return;
  // Runs in the helper process, which updates its own copy of `announced_` for later requests in
  // the same process.
  desk_->ask(
      [this, text] {
        const auto there = announce(report_path_, own_, announced_, text);
        announced_ = there.value_or(announced_);
        return answer_of(there);
      },
      [this](const std::optional<std::string>& answer) {
        announced_ = result_of(answer, "").value_or(announced_);
      });
}

Result<std::string> OutputFiles::leave_report(const std::string& text,
                                              const std::string& suffix) const {
  if (!keeps_report()) return report_path_;
  return place_left(ask([&] { return leave(report_path_, own_, announced_, text, suffix); },
                        bounds::disk_timeout_at_end));
}

Result<std::string> OutputFiles::place_left(const Result<std::string>& left) const {
  return left && *left == report_path_ ? report_name_ : left;
}

void OutputFiles::leave_report_later(const std::string& text, const std::string& suffix,
                                     Left left) {
  if (!desk_) return left(leave_report(text, suffix));
  desk_->ask([this, text,
              suffix] { return answer_of(leave(report_path_, own_, announced_, text, suffix)); },
             [this, left = std::move(left)](const std::optional<std::string>& answer) {
               left(place_left(result_of(answer, no_answer("--report", report_path_))));
             });
}

}  // namespace cpprun::io
