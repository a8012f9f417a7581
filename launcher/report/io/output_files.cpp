// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/report/io/output_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <asio/post.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "launcher/io/disk_helper.h"
#include "launcher/output/io/log_dir.h"
#include "launcher/plan/io/host.h"
#include "proto/bounds.h"
#include "proto/text.h"
#include "rendezvous/io/event_loop.h"

namespace cpprun::io {

namespace {

// Opens without waiting for a reader; later writes do not wait for room.
constexpr int opening = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK;

bool is_file(int descriptor) {
  struct stat facts {};
  return ::fstat(descriptor, &facts) == 0 && S_ISREG(facts.st_mode);
}

// Sent along with a descriptor.
enum Handed { as_asked, is_link_to_what_is_at_hand };

// Runs in a helper process. A regular file is written there. Anything else is passed back. Paths
// such as /dev/stdout are not opened here, because this process has other streams.
void open_and_write(const std::string& path, int lines, int news) {
  if (!leads_at_hand(path).empty()) return hand(news, is_link_to_what_is_at_hand, 0);
  const FileDescriptor file{::open(path.c_str(), opening, 0644)};
  if (!file) return hand(news, as_asked, errno);
  if (!is_file(file.get())) return hand(news, as_asked, 0, file.get());
  hand(news, as_asked, 0);
  write_events(file.get(), lines, news);
}

// Watches a duplicate, because Asio closes the descriptor it watches.
void watch(asio::posix::stream_descriptor& watched, int descriptor) {
  const int own = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
  if (own < 0) return;
  asio::error_code refused;  // if it cannot be watched, the next line tries again
  watched.assign(own, refused);
  if (refused) ::close(own);
}

}  // namespace

bool waiting_helps(int error_number) {
  return error_number == EAGAIN || error_number == EWOULDBLOCK || error_number == EINTR ||
         error_number == ENOSPC || error_number == EDQUOT;
}

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

Result<void> EventFile::open_at_hand(const std::string& path) {
  file_.reset(::open(path.c_str(), opening, 0644));
  if (file_) return {};
  return failure(fmt::format("--events: cannot write \"{}\": {}", path_, errno_text(errno)));
}

Result<EventFile> EventFile::open(const std::string& path, HelperProcesses& side) {
  EventFile events;
  events.path_ = path;
  const auto cannot = [&](const std::string& why) {
    return failure(fmt::format("--events: cannot write \"{}\": {}", path, why));
  };
  const auto at_hand = [&](const std::string& place) -> Result<EventFile> {
    if (auto opened = events.open_at_hand(place); !opened) return tl::unexpected(opened.error());
    return std::move(events);
  };
  if (is_at_hand(path)) return at_hand(path);
  int lines[2];
  auto way = make_way();
  if (!way || ::pipe2(lines, O_CLOEXEC) != 0) return cannot(errno_text(errno));
  const FileDescriptor read_end{lines[0]};
  events.file_.reset(lines[1]);
  ::fcntl(lines[1], F_SETFL, O_NONBLOCK);
  const int news = way->theirs.get();
  const auto pid = side.start({lines[0], news}, [&] { open_and_write(path, lines[0], news); });
  if (!pid) return cannot(pid.error().reason);
  way->theirs.reset();
  auto opened = take_handed(way->mine.get(),
                            std::chrono::steady_clock::now() + bounds::disk_timeout_at_start);
  if (!opened) return cannot("its disk does not respond");
  if (opened->number == is_link_to_what_is_at_hand) {
    const auto place = side.ask([&] { return leads_at_hand(path); }, bounds::disk_timeout_at_start);
    return at_hand(place.value_or(path));
  }
  if (opened->error_number != 0) return cannot(errno_text(opened->error_number));
  if (opened->file) {
    events.file_ = std::move(opened->file);
  } else {
    events.news_ = std::move(way->mine);
  }
  return events;
}

void EventFile::serve(asio::io_context& context, Tell tell) {
  if (!file_) return;
  service_ = std::make_shared<Service>(context, std::move(tell));
  watch(service_->room, file_.get());
  if (!news_) return;
  watch(service_->news, news_.get());
  hear();
}

// Receives messages of the writer process until it ends; then the log ends too.
void EventFile::hear() {
  if (!service_->news.is_open()) return;
  service_->news.async_wait(asio::posix::stream_descriptor::wait_read,
                            [this, held = std::weak_ptr(service_)](const asio::error_code& error) {
                              if (error || held.expired()) return;
                              bool ended = false;
                              const auto handed = take_handed_now(news_.get(), ended);
                              if (handed) report_error(handed->error_number);
                              if (!ended) return hear();
                              close();
                              if (finishing_) end();
                            });
}

void EventFile::append(const std::string& line) {
  if (!file_ || line.empty() || finishing_) return;
  if (waiting_bytes_ + line.size() > bounds::events_waiting_bytes_max) {
    ++lost_;
  } else {
    waiting_.push_back(line);
    waiting_bytes_ += line.size();
  }
  // While waiting for room, the line only joins the queue.
  if (!listening_) write_waiting();
}

void EventFile::write_waiting() {
  while (file_ && !waiting_.empty()) {
    const auto outcome = write_front();
    if (outcome == Outcome::written) continue;
    // A pipe that is read slowly is normal.
    const bool slow = error_number_ == EAGAIN || error_number_ == EWOULDBLOCK;
    if (!slow && !std::exchange(reported_, true)) report_error(error_number_);
    if (outcome == Outcome::over) return close();
    return listen();
  }
  reported_ = false;
  if (!finishing_ || !news_) return;
  // The writer process sees end of file once the last copy of this pipe is closed.
  file_.reset();
  if (service_) service_->room.close();
}

// Writes each line with one call, so that lines of several nodes in one file stay whole.
EventFile::Outcome EventFile::write_front() {
  auto& line = waiting_.front();
  const auto put = ::write(file_.get(), line.data(), line.size());
  if (put < 0) {
    if (errno == EINTR) return Outcome::written;
    error_number_ = errno;
    return waiting_helps(errno) ? Outcome::later : Outcome::over;
  }
  const auto written = static_cast<std::size_t>(put);
  waiting_bytes_ -= written;
  line.erase(0, written);
  if (line.empty()) waiting_.pop_front();
  return Outcome::written;
}

void EventFile::listen() {
  const bool full = error_number_ == EAGAIN || error_number_ == EWOULDBLOCK;
  if (!service_ || !service_->room.is_open() || listening_ || !full) return;
  listening_ = true;
  service_->room.async_wait(asio::posix::stream_descriptor::wait_write,
                            [this, held = std::weak_ptr(service_)](const asio::error_code& error) {
                              // Cancelled by the owner's destruction, or by the end of the reader.
                              if (error || held.expired()) return;
                              listening_ = false;
                              write_waiting();
                            });
}

void EventFile::finish(std::function<void()> done) {
  finishing_ = true;
  if (!service_) return done();
  service_->done = std::move(done);
  if (file_) {
    static_cast<void>(::fcntl(file_.get(), F_SETPIPE_SZ, static_cast<int>(bounds::pipe_bytes_max)));
    if (!listening_) write_waiting();
  }
  // A pipe keeps its content for the reader, so only the writer process is waited for.
  if (!news_) return end();
  ::shutdown(news_.get(), SHUT_WR);
  service_->timer.expires_after(bounds::disk_timeout_at_end);
  service_->timer.async_wait([this](const asio::error_code& cancelled) {
    if (cancelled) return;
    tell(fmt::format(
        "--events: the last events were not written to \"{}\": its disk has not responded for {} s",
        path_, bounds::disk_timeout_at_end.count()));
    end();
  });
}

void EventFile::end() {
  service_->timer.cancel();
  if (service_->done) asio::post(service_->timer.get_executor(), std::exchange(service_->done, {}));
}

// After a permanent error.
void EventFile::close() {
  file_.reset();
  waiting_.clear();
  waiting_bytes_ = 0;
  if (service_) service_->room.close();
}

void EventFile::report_error(int error_number) {
  const auto cannot =
      fmt::format("--events: cannot write \"{}\": {}; ", path_, errno_text(error_number));
  if (!waiting_helps(error_number)) {
    return tell(cannot + "no further events are written; the job continues");
  }
  tell(
      fmt::format("{}buffering up to {} KiB of events until there is free space; the job continues",
                  cannot, bounds::events_waiting_bytes_max / 1024));
}

void EventFile::tell(const std::string& sentence) const {
  if (service_ && service_->tell) service_->tell(sentence);
}

std::size_t EventFile::take_lost() {
  return waiting_.empty() ? std::exchange(lost_, 0) : 0;
}

namespace {

class Writer {
 public:
  Writer(int file, int news) : file_(file), news_(news) {}

  // Returns false if the writer should exit.
  bool write(std::string_view line) {
    while (true) {
      const int error_number = try_once(line);
      if (error_number == 0) {
        has_trouble_ = false;
        return true;
      }
      if (!std::exchange(has_trouble_, true)) hand(news_, 0, error_number);
      if (!waiting_helps(error_number) || !wait_for_room()) return false;
    }
  }

 private:
  // Writes each line with one call, so that lines of several nodes in one file stay whole.
  int try_once(std::string_view line) const {
    const auto put = ::write(file_, line.data(), line.size());
    if (put == static_cast<ssize_t>(line.size())) return 0;
    if (put < 0) return errno;
    cut_back(static_cast<off_t>(put));
    return ENOSPC;
  }

  // Removes a partly written line, unless another process has already appended to the file.
  void cut_back(off_t torn) const {
    struct stat facts {};
    const auto end = ::lseek(file_, 0, SEEK_CUR);
    if (::fstat(file_, &facts) != 0 || end < 0 || facts.st_size != end) return;
    // If this fails, the partial line remains, and the whole line is written when there is room.
    static_cast<void>(::ftruncate(file_, end - torn));
  }

  // Polls, since a full disk does not report when it has room. Returns false after the last
  // attempt.
  bool wait_for_room() {
    if (std::exchange(was_last_, is_last_)) return false;
    using std::chrono::milliseconds;
    pollfd end{news_, POLLIN, 0};
    constexpr auto pause = std::chrono::duration_cast<milliseconds>(bounds::full_disk_pause);
    if (!is_last_) is_last_ = ::poll(&end, 1, static_cast<int>(pause.count())) != 0;
    return true;
  }

  int file_;
  int news_;
  bool has_trouble_ = false;
  bool is_last_ = false;  // `news` is closed: one attempt is left
  bool was_last_ = false;
};

}  // namespace

void write_events(int file, int lines, int news) {
  Writer writer(file, news);
  std::string waiting;
  std::array<char, 16 * 1024> some;
  while (true) {
    const auto got = ::read(lines, some.data(), some.size());
    if (got <= 0) return;
    waiting.append(some.data(), static_cast<std::size_t>(got));
    std::size_t begin = 0;
    for (auto end = waiting.find('\n'); end != std::string::npos; end = waiting.find('\n', begin)) {
      if (!writer.write(std::string_view(waiting).substr(begin, end + 1 - begin))) return;
      begin = end + 1;
    }
    waiting.erase(0, begin);
  }
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

tl::unexpected<Error> cannot_write_file(const std::string& flag, const std::string& path,
                                        int number) {
  return failure(fmt::format("{}: cannot write \"{}\": {}", flag, path, errno_text(number)));
}

tl::unexpected<Error> no_answer(const std::string& flag, const std::string& path) {
  return failure(fmt::format("{}: cannot write \"{}\": its disk does not respond", flag, path));
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

// The following functions run in a helper process and return their results as strings.

// Whether the file still has the text that we announced.
bool is_ours(const std::string& path, const std::string& announced) {
  if (announced.empty()) return true;
  const auto there = read_small_file(path);
  return !there || *there == announced;
}

// Returns the error, and the link's target if this process must be tried instead of the helper.
std::string try_report_aside(const std::string& path, const OwnStreams& own) {
  if (auto at_hand = leads_at_hand(path); !at_hand.empty()) return packed({"", at_hand});
  const auto tried = try_report_at(path, own);
  return packed({tried ? "" : tried.error().reason, ""});
}

// Returns the error, and the text now in the file.
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

// Returns the error, and the report's path.
std::string leave_aside(const std::string& path, const OwnStreams& own,
                        const std::string& announced, const std::string& text,
                        const std::string& suffix) {
  const auto left = leave(path, own, announced, text, suffix);
  return packed({left ? "" : left.error().reason, left.value_or("")});
}

// The second string, or the first as an error.
Result<std::string> outcome(const std::optional<std::string>& answer, const std::string& path) {
  const auto texts = unpacked(answer.value_or(""));
  if (texts.empty()) return no_answer("--report", path);
  if (!texts[0].empty()) return failure(texts[0]);
  return texts.size() > 1 ? texts[1] : "";
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

Result<void> OutputFiles::try_report() {
  const auto tried = outcome(
      ask([&] { return try_report_aside(report_path_, own_); }, bounds::disk_timeout_at_start),
      report_path_);
  if (!tried) return tl::unexpected(tried.error());
  if (tried->empty()) return {};
  // The helper process has other streams, so check here.
  report_path_ = *tried;
  return try_report_at(report_path_, own_);
}

Result<void> OutputFiles::try_events(const std::string& path, HelperProcesses& side) {
  if (path.empty()) return {};
  const auto look = [&] {
    const auto tried = try_events_at(path);
    return packed({tried ? "" : tried.error().reason});
  };
  const auto answer =
      is_at_hand(path) ? std::optional(look()) : side.ask(look, bounds::disk_timeout_at_start);
  const auto texts = unpacked(answer.value_or(""));
  if (texts.empty()) return no_answer("--events", path);
  if (!texts[0].empty()) return failure(texts[0]);
  return {};
}

std::optional<std::string> OutputFiles::ask(const std::function<std::string()>& look,
                                            Duration timeout) const {
  return is_at_hand(report_path_) ? look() : side_->ask(look, timeout);
}

void OutputFiles::serve(asio::io_context& context, EventFile::Tell tell) {
  events_.serve(context, std::move(tell));
  if (keeps_report() && !is_at_hand(report_path_)) {
    desk_ = std::make_unique<AsyncTask>(context, *side_, bounds::disk_timeout_at_end);
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
                          bounds::disk_timeout_at_start);
  auto said = outcome(answer, report_path_);
  if (!said) return tl::unexpected(said.error());
  announced_ = std::move(*said);
  return {};
}

void OutputFiles::announce_report_later(const std::string& text) {
  if (!desk_) return;
  // Runs in the helper process, which updates its own copy of `announced_` for later requests in
  // the same process.
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
                        bounds::disk_timeout_at_end));
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
