// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/report/io/output_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "launcher/io/wall_clock.h"
#include "launcher/output/io/log_dir.h"
#include "launcher/packed_texts.h"
#include "launcher/plan/io/host.h"
#include "proto/bounds.h"
#include "proto/text.h"

namespace cpprun::io {

namespace {

// A pipe or a device is written to as it is; replacing it by a file would be a surprise.
// So would be one in the place of our stdout, where that is a file.
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

tl::unexpected<Error> cannot_write_file(const std::string& flag, const std::string& path,
                                        int number) {
  return failure(fmt::format("{}: cannot write \"{}\": {}", flag, path, errno_text(number)));
}

tl::unexpected<Error> no_answer(const std::string& flag, const std::string& path) {
  return failure(fmt::format("{}: cannot write \"{}\": its disk does not answer", flag, path));
}

// Whether a file of that name can be made; leaves nothing behind.
Result<void> try_new_file(const std::string& flag, const std::string& path) {
  const auto tried = path + "." + random_token(4);
  const FileDescriptor file{::open(tried.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644)};
  if (!file) return cannot_write_file(flag, path, errno);
  ::unlink(tried.c_str());
  return {};
}

// Whether what is there can be written to. A pipe that nobody reads must not hold up the start.
int error_of_writing_to(const std::string& path) {
  const FileDescriptor file{::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK)};
  return file ? 0 : errno;
}

// The report is written under another name and renamed, unless it is for something special.
Result<void> try_report_at(const std::string& path, const OwnStreams& own) {
  if (!is_special(path, own)) return try_new_file("--report", path);
  const int wrong = error_of_writing_to(path);
  if (wrong != 0 && wrong != ENXIO) return cannot_write_file("--report", path, wrong);
  return {};
}

// As the event file will open it, which makes one.
Result<void> try_events_at(const std::string& path) {
  const int wrong = error_of_writing_to(path);
  if (wrong == ENOENT) return try_new_file("--events", path);
  if (wrong != 0) return cannot_write_file("--events", path, wrong);
  return {};
}

// What follows is done by a process beside ours, and its outcome comes as texts.

// Whether nobody has written over what was announced.
bool is_ours(const std::string& path, const std::string& announced) {
  if (announced.empty()) return true;
  const auto there = read_small_file(path);
  return !there || *there == announced;
}

// What was wrong; or where it leads, if that is for our own process to try.
std::string try_report_aside(const std::string& path, const OwnStreams& own) {
  if (auto at_hand = leads_at_hand(path); !at_hand.empty()) return packed({"", at_hand});
  const auto tried = try_report_at(path, own);
  return packed({tried ? "" : tried.error().reason, ""});
}

// What was wrong, and what the file says now.
std::string announce_aside(const std::string& path, const OwnStreams& own,
                           const std::string& announced, const std::string& text) {
  if (is_special(path, own) || !is_ours(path, announced)) return packed({"", announced});
  const auto written = write_whole_file(path, text);
  return packed({written ? "" : written.error().reason, written ? text : announced});
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

// What was wrong, and where it is.
std::string leave_aside(const std::string& path, const OwnStreams& own,
                        const std::string& announced, const std::string& text,
                        const std::string& suffix) {
  const auto left = leave(path, own, announced, text, suffix);
  return packed({left ? "" : left.error().reason, left.value_or("")});
}

// The second text, unless the first says what was wrong.
Result<std::string> outcome(const std::optional<std::string>& answer, const std::string& path) {
  const auto texts = unpacked(answer.value_or(""));
  if (texts.empty()) return no_answer("--report", path);
  if (!texts[0].empty()) return failure(texts[0]);
  return texts.size() > 1 ? texts[1] : "";
}

}  // namespace

Result<OutputFiles> OutputFiles::open(const std::string& report_path,
                                      const std::string& events_path, SideProcesses& side) {
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

Result<void> OutputFiles::try_report() {
  const auto tried = outcome(
      ask([&] { return try_report_aside(report_path_, own_); }, bounds::disk_patience_at_start),
      report_path_);
  if (!tried) return tl::unexpected(tried.error());
  if (tried->empty()) return {};
  // The process that was asked has streams of its own.
  report_path_ = *tried;
  return try_report_at(report_path_, own_);
}

Result<void> OutputFiles::try_events(const std::string& path, SideProcesses& side) {
  if (path.empty()) return {};
  const auto look = [&] {
    const auto tried = try_events_at(path);
    return packed({tried ? "" : tried.error().reason});
  };
  const auto answer =
      is_at_hand(path) ? std::optional(look()) : side.ask(look, bounds::disk_patience_at_start);
  const auto texts = unpacked(answer.value_or(""));
  if (texts.empty()) return no_answer("--events", path);
  if (!texts[0].empty()) return failure(texts[0]);
  return {};
}

std::optional<std::string> OutputFiles::ask(const std::function<std::string()>& look,
                                            Duration patience) const {
  return is_at_hand(report_path_) ? look() : side_->ask(look, patience);
}

void OutputFiles::serve(asio::io_context& context, EventFile::Tell tell) {
  events_.serve(context, std::move(tell));
  if (keeps_report() && !is_at_hand(report_path_)) {
    desk_ = std::make_unique<Inquiry>(context, *side_, bounds::disk_patience_at_end);
  }
}

std::string OutputFiles::line(WallTime time, const event_log::Event& event) {
  if (!event_log_) return {};
  return event_log_->line(time, event);
}

std::string OutputFiles::line(const event_log::Event& event) {
  return line(wall_now(), event);
}

void OutputFiles::append(const std::string& line) {
  if (const auto lost = events_.take_lost(); lost > 0) {
    events_.append(this->line(event_log::EventsLost{lost}));
  }
  events_.append(line);
}

Result<void> OutputFiles::announce_report(const std::string& text) {
  if (!keeps_report()) return {};
  const auto answer = ask([&] { return announce_aside(report_path_, own_, announced_, text); },
                          bounds::disk_patience_at_start);
  auto said = outcome(answer, report_path_);
  if (!said) return tl::unexpected(said.error());
  announced_ = std::move(*said);
  return {};
}

void OutputFiles::announce_report_later(const std::string& text) {
  if (!desk_) return;
  // Looked at in the other process when it is its turn: what it knows by then, and leaves to those
  // that come after it in the same go.
  desk_->ask(
      [this, text] {
        auto answer = announce_aside(report_path_, own_, announced_, text);
        announced_ = unpacked(answer).at(1);
        return answer;
      },
      [this](const std::optional<std::string>& answer) {
        if (const auto said = outcome(answer, report_path_)) announced_ = *said;
      });
}

Result<std::string> OutputFiles::leave_report(const std::string& text,
                                              const std::string& suffix) const {
  if (!keeps_report()) return report_path_;
  return place_left(ask([&] { return leave_aside(report_path_, own_, announced_, text, suffix); },
                        bounds::disk_patience_at_end));
}

Result<std::string> OutputFiles::place_left(const std::optional<std::string>& answer) const {
  auto left = outcome(answer, report_path_);
  if (left && *left == report_path_) return report_name_;
  return left;
}

void OutputFiles::leave_report_later(const std::string& text, const std::string& suffix,
                                     Left left) {
  if (!desk_) return left(leave_report(text, suffix));
  desk_->ask(
      [this, text, suffix] { return leave_aside(report_path_, own_, announced_, text, suffix); },
      [this, left = std::move(left)](const std::optional<std::string>& answer) {
        left(place_left(answer));
      });
}

}  // namespace cpprun::io
