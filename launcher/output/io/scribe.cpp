// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/output/io/scribe.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "proto/bounds.h"

namespace cpprun::io {

namespace {

// All the thread has. It is left alone with it.
struct Desk {
  FileDescriptor file;
  FileDescriptor words;
  FileDescriptor news;
};

// Gives how many bytes were written; fewer than all where errno says why.
std::size_t write_all(int file, std::string_view text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const auto put = ::write(file, text.data() + done, text.size() - done);
    if (put > 0) {
      done += static_cast<std::size_t>(put);
    } else if (put == 0 || errno != EINTR) {
      return done;
    }
  }
  return done;
}

// What is missing is told in its place, as soon as there is room for that.
bool close_gap(int file, std::size_t lost, int error_number) {
  const auto note = "\ncpprun: " + std::to_string(lost) +
                    " bytes are missing here: " + std::strerror(error_number) + "\n";
  const auto begin = ::lseek(file, 0, SEEK_CUR);
  const auto put = write_all(file, note);
  if (put == note.size()) return true;
  // Half of a note is worse than none; one that is not at the end any more is left alone.
  if (put > 0 && begin >= 0 && ::lseek(file, 0, SEEK_END) == begin + static_cast<off_t>(put)) {
    static_cast<void>(::ftruncate(file, begin));
    static_cast<void>(::lseek(file, begin, SEEK_SET));
  }
  return false;
}

void write_until_the_end(const Desk& desk) {
  std::vector<char> buffer(bounds::pump_read_bytes);
  std::size_t lost = 0;
  int error_number = 0;
  while (true) {
    const auto got = ::read(desk.words.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    const std::string_view bytes(buffer.data(), static_cast<std::size_t>(got));
    if (lost > 0 && !close_gap(desk.file.get(), lost, error_number)) {
      lost += bytes.size();
      continue;
    }
    const bool was_lost = std::exchange(lost, 0) > 0;
    const auto done = write_all(desk.file.get(), bytes);
    if (done == bytes.size()) continue;
    error_number = errno;
    lost = bytes.size() - done;
    // Nobody may be there to hear it, which is no reason to stop.
    if (!was_lost) static_cast<void>(::write(desk.news.get(), &error_number, sizeof error_number));
  }
}

}  // namespace

std::unique_ptr<Scribe> Scribe::begin(asio::io_context& context, int file, Callbacks callbacks) {
  int words[2];
  int news[2];
  if (::pipe2(words, O_CLOEXEC) != 0) return nullptr;
  FileDescriptor words_read{words[0]};
  FileDescriptor words_write{words[1]};
  if (::pipe2(news, O_CLOEXEC) != 0) return nullptr;
  FileDescriptor news_read{news[0]};
  Desk desk{FileDescriptor{::fcntl(file, F_DUPFD_CLOEXEC, 3)}, std::move(words_read),
            FileDescriptor{news[1]}};
  if (!desk.file) return nullptr;
  std::unique_ptr<Scribe> scribe(
      new Scribe(context, std::move(words_write), std::move(news_read), std::move(callbacks)));
  // Signals are the event loop's: a thread takes over the mask it is made under.
  sigset_t every, before;
  ::sigfillset(&every);
  ::pthread_sigmask(SIG_SETMASK, &every, &before);
  try {
    scribe->thread_ = std::thread([desk = std::move(desk)] { write_until_the_end(desk); });
  } catch (const std::system_error&) {
    scribe.reset();
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (scribe) scribe->listen();
  return scribe;
}

Scribe::Scribe(asio::io_context& context, FileDescriptor words, FileDescriptor news,
               Callbacks callbacks)
    : words_(std::move(words)), news_(context, news.release()), callbacks_(std::move(callbacks)) {
  news_.non_blocking(true);
}

Scribe::~Scribe() {
  if (!thread_.joinable()) return;
  if (ended_) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void Scribe::listen() {
  news_.async_wait(
      asio::posix::stream_descriptor::wait_read, [this](const asio::error_code& error) {
        if (error) return;
        int error_number = 0;
        const auto got = ::read(news_.native_handle(), &error_number, sizeof error_number);
        if (got == 0) {
          ended_ = true;
          return callbacks_.ended();
        }
        if (got == sizeof error_number) callbacks_.trouble(error_number);
        listen();
      });
}

}  // namespace cpprun::io
