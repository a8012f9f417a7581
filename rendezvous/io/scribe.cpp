// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/io/scribe.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/bounds.h"
#include "proto/text.h"
#include "rendezvous/io/write_all.h"

namespace cpprun {

namespace {

// All the process has of ours.
struct Desk {
  int file;
  int words;
  int news;
};

// What is missing is told in its place, as soon as there is room for that.
bool close_gap(int file, std::size_t lost, int error_number) {
  const auto note = "\ncpprun: " + std::to_string(lost) +
                    " bytes are missing here: " + errno_text(error_number) + "\n";
  const auto begin = ::lseek(file, 0, SEEK_CUR);
  const auto put = write_all(file, note);
  if (put == note.size()) return true;
  // Half of a note is worse than none; one that is not at the end any more is left alone.
  if (put > 0 && begin >= 0 && ::lseek(file, 0, SEEK_END) == begin + static_cast<off_t>(put)) {
    (void)!::ftruncate(file, begin);
    static_cast<void>(::lseek(file, begin, SEEK_SET));
  }
  return false;
}

void write_until_the_end(const Desk& desk) {
  std::vector<char> buffer(bounds::pump_read_bytes);
  std::size_t lost = 0;
  int error_number = 0;
  while (true) {
    const auto got = ::read(desk.words, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    const std::string_view bytes(buffer.data(), static_cast<std::size_t>(got));
    if (lost > 0 && !close_gap(desk.file, lost, error_number)) {
      lost += bytes.size();
      continue;
    }
    const bool was_lost = std::exchange(lost, 0) > 0;
    const auto done = write_all(desk.file, bytes);
    if (done == bytes.size()) continue;
    error_number = errno;
    lost = bytes.size() - done;
    // Nobody may be there to hear it, which is no reason to stop.
    if (!was_lost) (void)!::write(desk.news, &error_number, sizeof error_number);
  }
}

}  // namespace

std::unique_ptr<Scribe> Scribe::begin(asio::io_context& context, SideProcesses& side, int file,
                                      Callbacks callbacks) {
  int words[2];
  int news[2];
  if (::pipe2(words, O_CLOEXEC) != 0) return nullptr;
  const FileDescriptor words_read{words[0]};
  FileDescriptor words_write{words[1]};
  if (::pipe2(news, O_CLOEXEC) != 0) return nullptr;
  FileDescriptor news_read{news[0]};
  const FileDescriptor news_write{news[1]};
  const Desk desk{file, words[0], news[1]};
  const auto pid =
      side.start({desk.file, desk.words, desk.news}, [desk] { write_until_the_end(desk); });
  if (!pid) return nullptr;
  std::unique_ptr<Scribe> scribe(
      new Scribe(context, std::move(words_write), std::move(news_read), std::move(callbacks)));
  scribe->listen();
  return scribe;
}

std::unique_ptr<Scribe> Scribe::begin_for_file(asio::io_context& context, SideProcesses& side,
                                               int descriptor, Callbacks callbacks) {
  struct stat kind {};
  if (::fstat(descriptor, &kind) != 0 || !S_ISREG(kind.st_mode)) return nullptr;
  return begin(context, side, descriptor, std::move(callbacks));
}

Scribe::Scribe(asio::io_context& context, FileDescriptor words, FileDescriptor news,
               Callbacks callbacks)
    : words_(std::move(words)), news_(context, news.release()), callbacks_(std::move(callbacks)) {
  news_.non_blocking(true);
}

void Scribe::finish(Duration patience) {
  words_.reset();
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd news{news_.native_handle(), POLLIN, 0};
    if (left.count() <= 0 || ::poll(&news, 1, static_cast<int>(left.count())) == 0) return;
    int error_number = 0;
    if (::read(news.fd, &error_number, sizeof error_number) == 0) return;
  }
}

void Scribe::listen() {
  news_.async_wait(
      asio::posix::stream_descriptor::wait_read, [this](const asio::error_code& error) {
        if (error) return;
        int error_number = 0;
        const auto got = ::read(news_.native_handle(), &error_number, sizeof error_number);
        if (got == 0) {
          if (callbacks_.ended) callbacks_.ended();
          return;
        }
        if (got == sizeof error_number && callbacks_.trouble) callbacks_.trouble(error_number);
        listen();
      });
}

}  // namespace cpprun
