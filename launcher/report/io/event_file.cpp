// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/report/io/event_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <asio/post.hpp>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "launcher/io/handed_file.h"
#include "launcher/report/io/event_writer.h"
#include "proto/bounds.h"
#include "proto/text.h"

namespace cpprun::io {

namespace {

// No waiting for a reader, and none for room later.
constexpr int opening = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK;

bool is_file(int descriptor) {
  struct stat facts {};
  return ::fstat(descriptor, &facts) == 0 && S_ISREG(facts.st_mode);
}

// What is said beside a file that is handed over.
enum Handed { as_asked, is_link_to_what_is_at_hand };

// In the process beside ours: a file stays there, anything else is handed over; but for our own
// streams, which are others there.
void open_and_write(const std::string& path, int lines, int news) {
  if (!leads_at_hand(path).empty()) return hand(news, is_link_to_what_is_at_hand, 0);
  const FileDescriptor file{::open(path.c_str(), opening, 0644)};
  if (!file) return hand(news, as_asked, errno);
  if (!is_file(file.get())) return hand(news, as_asked, 0, file.get());
  hand(news, as_asked, 0);
  write_events(file.get(), lines, news);
}

// One of our own: what is waited for by Asio is closed by it.
void watch(asio::posix::stream_descriptor& watched, int descriptor) {
  const int own = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
  if (own < 0) return;
  asio::error_code refused;  // by what cannot be waited for: then the next line tries again
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
  constexpr int links_max = 40;  // as the kernel follows
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

Result<EventFile> EventFile::open(const std::string& path, SideProcesses& side) {
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
                            std::chrono::steady_clock::now() + bounds::disk_patience_at_start);
  if (!opened) return cannot("its disk does not answer");
  if (opened->number == is_link_to_what_is_at_hand) {
    const auto place =
        side.ask([&] { return leads_at_hand(path); }, bounds::disk_patience_at_start);
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

// What the process that writes has to say, until its end, which is everybody's.
void EventFile::hear() {
  if (!service_->news.is_open()) return;
  service_->news.async_wait(asio::posix::stream_descriptor::wait_read,
                            [this, held = std::weak_ptr(service_)](const asio::error_code& error) {
                              if (error || held.expired()) return;
                              bool ended = false;
                              const auto handed = take_handed_now(news_.get(), ended);
                              if (handed) complain(handed->error_number);
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
  // It comes after those that wait already, and somebody waits for their sake.
  if (!listening_) write_waiting();
}

void EventFile::write_waiting() {
  while (file_ && !waiting_.empty()) {
    const auto outcome = write_front();
    if (outcome == Outcome::written) continue;
    // A pipe that is read slowly is an ordinary thing.
    const bool slow = error_number_ == EAGAIN || error_number_ == EWOULDBLOCK;
    if (!slow && !std::exchange(complained_, true)) complain(error_number_);
    if (outcome == Outcome::over) return close();
    return listen();
  }
  complained_ = false;
  if (!finishing_ || !news_) return;
  // The process that writes sees the end of its lines once nobody has that pipe any more.
  file_.reset();
  if (service_) service_->room.close();
}

// One write for a line, so that those of several nodes in one file stay whole.
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
                              // Gone with its owner, or because nobody reads any more.
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
  // Whoever reads a pipe finds there what it holds; a file is waited for.
  if (!news_) return end();
  ::shutdown(news_.get(), SHUT_WR);
  service_->timer.expires_after(bounds::disk_patience_at_end);
  service_->timer.async_wait([this](const asio::error_code& cancelled) {
    if (cancelled) return;
    tell(
        fmt::format("--events: the last events are not in \"{}\": its disk does not answer for "
                    "{} s",
                    path_, bounds::disk_patience_at_end.count()));
    end();
  });
}

void EventFile::end() {
  service_->timer.cancel();
  if (service_->done) asio::post(service_->timer.get_executor(), std::exchange(service_->done, {}));
}

// After what no waiting cures.
void EventFile::close() {
  file_.reset();
  waiting_.clear();
  waiting_bytes_ = 0;
  if (service_) service_->room.close();
}

void EventFile::complain(int error_number) {
  const auto cannot =
      fmt::format("--events: cannot write \"{}\": {}; ", path_, errno_text(error_number));
  if (!waiting_helps(error_number)) {
    return tell(cannot + "no more events are written; the job goes on");
  }
  tell(fmt::format("{}events wait until there is room, at most {} KiB of them, and the job goes on",
                   cannot, bounds::events_waiting_bytes_max / 1024));
}

void EventFile::tell(const std::string& sentence) const {
  if (service_ && service_->tell) service_->tell(sentence);
}

std::size_t EventFile::take_lost() {
  return waiting_.empty() ? std::exchange(lost_, 0) : 0;
}

}  // namespace cpprun::io
