// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/io/file_writer_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <utility>

#include "rendezvous/bounds.h"

namespace cpprun {

namespace {

// Precedes the bytes of one file in the pipe.
struct Head {
  std::uint32_t index = 0;
  std::uint32_t bytes = 0;
};

// A message from the process: a file was opened, or could not be opened or written.
struct Letter {
  struct {
    std::uint32_t index;
    std::int32_t error_number;
  } numbers{};
  iovec part{&numbers, sizeof numbers};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> beside{};
  msghdr head{};
  Letter() {
    head.msg_iov = &part;
    head.msg_iovlen = 1;
    head.msg_control = beside.data();
    head.msg_controllen = static_cast<decltype(head.msg_controllen)>(beside.size());
  }
};

// --- in the writer process -----------------------------------------------------------------------

class Writer {
 public:
  Writer(int pipe, int news) : pipe_(pipe), news_(news) {}
  // Until the pipe ends, or nothing more can be written.
  void run(const std::vector<WrittenFile::Plan>& plans);

 private:
  void open_all(const std::vector<WrittenFile::Plan>& plans);
  void send(std::size_t index, int error_number, int file = -1) const;
  bool write(std::size_t index, std::string_view bytes);
  bool write_messages(std::string_view& bytes);
  bool wait_for_room();

  int pipe_;
  int news_;
  std::vector<WrittenFile> files_;
  bool is_last_ = false;  // do not wait for room again: one attempt is left
  bool was_last_ = false;
};

void Writer::run(const std::vector<WrittenFile::Plan>& plans) {
  open_all(plans);
  const bool has_messages = plans.front().descriptor < 0;
  std::vector<char> buffer(bounds::pump_read_bytes);
  std::string waiting;  // the beginning of a message
  while (true) {
    const auto got = ::read(pipe_, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    std::string_view bytes(buffer.data(), static_cast<std::size_t>(got));
    if (!has_messages) {
      (void)write(0, bytes);
      continue;
    }
    waiting += bytes;
    bytes = waiting;
    if (!write_messages(bytes)) return;
    waiting.erase(0, waiting.size() - bytes.size());
  }
}

void Writer::open_all(const std::vector<WrittenFile::Plan>& plans) {
  files_.resize(plans.size());
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const int error_number = files_[i].open(plans[i]);
    send(i, error_number, plans[i].passed_back ? files_[i].descriptor() : -1);
    if (plans[i].passed_back) files_[i].close();
  }
}

// Removes from `bytes` what it has written. False: nothing more can be written.
bool Writer::write_messages(std::string_view& bytes) {
  Head head;
  while (bytes.size() >= sizeof head) {
    std::memcpy(&head, bytes.data(), sizeof head);
    if (bytes.size() < sizeof head + head.bytes) return true;
    const bool is_known = head.index < files_.size();
    if (!is_known || !write(head.index, bytes.substr(sizeof head, head.bytes))) return false;
    bytes.remove_prefix(sizeof head + head.bytes);
  }
  return true;
}

bool Writer::write(std::size_t index, std::string_view bytes) {
  return files_[index].write(bytes,
                             {.trouble = [&](int error_number) { send(index, error_number); },
                              .pause = [this] { return wait_for_room(); }});
}

// Polls, since a full disk does not report when it has room. Returns false after the last attempt.
bool Writer::wait_for_room() {
  if (std::exchange(was_last_, is_last_)) return false;
  pollfd end{.fd = news_, .events = POLLIN, .revents = 0};
  constexpr auto pause =
      std::chrono::duration_cast<std::chrono::milliseconds>(bounds::full_disk_pause);
  if (!is_last_) is_last_ = ::poll(&end, 1, static_cast<int>(pause.count())) != 0;
  return true;
}

void Writer::send(std::size_t index, int error_number, int file) const {
  Letter letter;
  letter.numbers = {static_cast<std::uint32_t>(index), error_number};
  if (file >= 0) {
    cmsghdr* const beside = CMSG_FIRSTHDR(&letter.head);
    beside->cmsg_level = SOL_SOCKET;
    beside->cmsg_type = SCM_RIGHTS;
    beside->cmsg_len = CMSG_LEN(sizeof file);
    std::memcpy(CMSG_DATA(beside), &file, sizeof file);
  } else {
    letter.head.msg_controllen = 0;
  }
  // An error means that the receiver has exited, so it can be ignored.
  (void)::sendmsg(news_, &letter.head, MSG_NOSIGNAL);
}

}  // namespace

// --- in cpprun -----------------------------------------------------------------------------------

std::unique_ptr<FileWriterProcess> FileWriterProcess::begin(HelperProcesses& side,
                                                            std::vector<File> files) {
  int pipe[2];
  int news[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) return nullptr;
  const FileDescriptor read_end{pipe[0]};
  FileDescriptor write_end{pipe[1]};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, news) != 0) return nullptr;
  FileDescriptor ours{news[0]};
  const FileDescriptor theirs{news[1]};
  std::vector<int> kept = {pipe[0], news[1]};
  if (files.front().descriptor >= 0) kept.push_back(files.front().descriptor);
  if (!side.start(kept, [&] { Writer(pipe[0], news[1]).run(files); })) {
    errno = EAGAIN;
    return nullptr;
  }
  return std::unique_ptr<FileWriterProcess>(
      new FileWriterProcess(std::move(write_end), std::move(ours), files.size()));
}

std::unique_ptr<FileWriterProcess> FileWriterProcess::begin_for_file(asio::io_context& context,
                                                                     HelperProcesses& side,
                                                                     int descriptor,
                                                                     Callbacks callbacks) {
  struct stat kind {};
  if (::fstat(descriptor, &kind) != 0 || !S_ISREG(kind.st_mode)) return nullptr;
  auto process =
      begin(side, {{.descriptor = descriptor, .on_error = WrittenFile::OnError::mark_gap}});
  if (process) process->listen(context, std::move(callbacks));
  return process;
}

std::optional<FileWriterProcess::News> FileWriterProcess::take_news(bool& is_over) const {
  Letter letter;
  const auto got = ::recvmsg(news_.get(), &letter.head, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  const bool nothing_yet = got < 0 && (errno == EAGAIN || errno == EINTR);
  is_over = !nothing_yet && got != static_cast<ssize_t>(sizeof letter.numbers);
  if (nothing_yet || is_over) return std::nullopt;
  News news{.index = letter.numbers.index, .error_number = letter.numbers.error_number};
  const cmsghdr* const beside = CMSG_FIRSTHDR(&letter.head);
  if (beside != nullptr && beside->cmsg_type == SCM_RIGHTS) {
    int file = -1;
    std::memcpy(&file, CMSG_DATA(beside), sizeof file);
    news.file.reset(file);
  }
  return news;
}

std::optional<FileWriterProcess::News> FileWriterProcess::await_news(TimePoint deadline) const {
  bool is_over = false;
  while (!is_over) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd watched{.fd = news_.get(), .events = POLLIN, .revents = 0};
    if (left.count() <= 0 || ::poll(&watched, 1, static_cast<int>(left.count())) == 0) break;
    if (auto news = take_news(is_over)) return news;
  }
  return std::nullopt;
}

std::vector<FileWriterProcess::News> FileWriterProcess::await_open(Duration timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::vector<News> opened(count_);
  for (News& each : opened) each.error_number = ETIMEDOUT;
  for (News& each : opened) {
    auto news = await_news(deadline);
    if (!news) break;
    each = *std::move(news);
  }
  return opened;
}

void FileWriterProcess::listen(asio::io_context& context, Callbacks callbacks) {
  callbacks_ = std::move(callbacks);
  // A duplicate, because Asio closes what it watches. Without one, messages are not received.
  FileDescriptor watched{::fcntl(news_.get(), F_DUPFD_CLOEXEC, 3)};
  asio::error_code refused;
  watch_.emplace(context);
  watch_->assign(watched.get(), refused);
  if (refused) return;
  (void)watched.release();
  hear();
}

void FileWriterProcess::hear() {
  watch_->async_wait(asio::posix::stream_descriptor::wait_read,
                     [this, alive = alive_](const asio::error_code& error) {
                       if (error || !*alive) return;
                       bool is_over = false;
                       const auto news = take_news(is_over);
                       // A file that was opened late is not reported.
                       if (news && news->error_number != 0 && callbacks_.trouble) {
                         callbacks_.trouble(news->index, news->error_number);
                       }
                       if (!*alive) return;
                       if (!is_over) return hear();
                       if (callbacks_.ended) callbacks_.ended();
                     });
}

std::string FileWriterProcess::message(std::size_t index, std::string_view bytes) {
  const Head head{static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(bytes.size())};
  std::string text(reinterpret_cast<const char*>(&head), sizeof head);
  text += bytes;
  return text;
}

void FileWriterProcess::stop_waiting() {
  (void)::shutdown(news_.get(), SHUT_WR);
}

void FileWriterProcess::finish(Duration timeout) {
  end();
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (await_news(deadline)) {
  }
}

}  // namespace cpprun
