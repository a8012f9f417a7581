// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/report/io/event_writer.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "launcher/io/handed_file.h"
#include "launcher/report/io/event_file.h"
#include "proto/bounds.h"

namespace cpprun::io {

namespace {

class Writer {
 public:
  Writer(int file, int news) : file_(file), news_(news) {}

  // False when there is no point in going on.
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
  // One write for a line, so that those of several nodes in one file stay whole.
  int try_once(std::string_view line) const {
    const auto put = ::write(file_, line.data(), line.size());
    if (put == static_cast<ssize_t>(line.size())) return 0;
    if (put < 0) return errno;
    cut_back(static_cast<off_t>(put));
    return ENOSPC;
  }

  // Half a line is worse than none, unless somebody has written behind it already.
  void cut_back(off_t torn) const {
    struct stat facts {};
    const auto end = ::lseek(file_, 0, SEEK_CUR);
    if (::fstat(file_, &facts) != 0 || end < 0 || facts.st_size != end) return;
    // Where that fails the line stays torn; it is written as a whole when there is room.
    static_cast<void>(::ftruncate(file_, end - torn));
  }

  // A disk does not say when it has room again. False where it has had its last chance.
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
  bool is_last_ = false;  // nobody waits any more
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

}  // namespace cpprun::io
