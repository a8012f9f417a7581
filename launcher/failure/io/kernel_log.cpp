// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/failure/io/kernel_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cerrno>

namespace cpprun::io {

namespace {

constexpr std::size_t record_bytes_max =
    8 * 1024;  // the kernel gives whole records of at most this
constexpr std::size_t lines_kept_max = 256;
constexpr std::size_t records_at_once_max = 4096;  // a kernel that talks without end
constexpr std::size_t line_bytes_max = 300;

// The number as a word of its own: pid 42 is not meant by 1042.
bool names(const std::string& line, const std::string& number) {
  for (auto at = line.find(number); at != std::string::npos; at = line.find(number, at + 1)) {
    const bool begins = at == 0 || std::isalnum(static_cast<unsigned char>(line[at - 1])) == 0;
    const auto after = at + number.size();
    const bool ends =
        after >= line.size() || std::isalnum(static_cast<unsigned char>(line[after])) == 0;
    if (begins && ends) return true;
  }
  return false;
}

// Only these are about an end; a log names processes for many reasons.
bool about_an_end(const std::string& line) {
  constexpr std::array words = {"segfault", "trap",    "Killed process",
                                "oom-kill", "SECCOMP", "seccomp"};
  for (const char* word : words) {
    if (line.find(word) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

KernelLog::KernelLog() : log_(::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
  if (log_.get() >= 0) ::lseek(log_.get(), 0, SEEK_END);
}

std::vector<std::string> KernelLog::about(int pid) {
  take_what_is_new();
  std::vector<std::string> found;
  for (const auto& line : lines_) {
    const bool device = line.find("NVRM: Xid") != std::string::npos;
    if (device || (about_an_end(line) && names(line, std::to_string(pid)))) found.push_back(line);
  }
  return found;
}

// A record is "priority,sequence,time,flags;text\n" and may go on with lines of key=value.
void KernelLog::take_what_is_new() {
  std::array<char, record_bytes_max> record{};
  for (std::size_t i = 0; log_.get() >= 0 && i < records_at_once_max; ++i) {
    const auto got = ::read(log_.get(), record.data(), record.size());
    // EPIPE: records were overwritten before we came; the next read goes on with what is there.
    if (got < 0 && errno == EPIPE) continue;
    if (got <= 0) return;
    std::string text(record.data(), static_cast<std::size_t>(got));
    const auto begin = text.find(';');
    if (begin == std::string::npos) continue;
    text = text.substr(begin + 1, text.find('\n', begin) - begin - 1);
    lines_.push_back(text.substr(0, line_bytes_max));
    if (lines_.size() > lines_kept_max) lines_.pop_front();
  }
}

}  // namespace cpprun::io
