#include "worker/env/io/fatal_signals.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <csignal>
#include <cstring>
#include <ctime>

#include "worker/env/io/error_file.h"

namespace cpprun {
namespace {

// A handler may touch nothing that allocates or locks: everything it needs is laid out beforehand.
struct Prepared {
  std::array<char, PATH_MAX> path{};
  std::array<char, PATH_MAX> temporary_path{};
  std::array<char, 32> prefix{};
};
Prepared prepared;

// Room for handling a stack overflow, when the ordinary stack is exactly what is used up.
alignas(16) std::array<char, 64 * 1024> alternate_stack;

class FixedText {
 public:
  FixedText& text(const char* words) noexcept {
    for (; *words != '\0' && size_ < bytes_.size(); ++words) bytes_[size_++] = *words;
    return *this;
  }
  FixedText& number(long value) noexcept {
    std::array<char, 24> digits{};
    std::size_t at = digits.size() - 1;
    do {
      digits[--at] = static_cast<char>('0' + value % 10);
      value /= 10;
    } while (value > 0 && at > 0);
    return text(&digits[at]);
  }
  const char* data() const noexcept { return bytes_.data(); }
  std::size_t size() const noexcept { return size_; }

 private:
  std::array<char, 512> bytes_{};
  std::size_t size_ = 0;
};

const char* signal_name(int number) noexcept {
  switch (number) {
    case SIGSEGV:
      return "SIGSEGV";
    case SIGBUS:
      return "SIGBUS";
    case SIGFPE:
      return "SIGFPE";
    case SIGILL:
      return "SIGILL";
    case SIGABRT:
      return "SIGABRT";
    default:
      return "signal";
  }
}

void describe_death(FixedText& out, int number) noexcept {
  out.text("Signal ").number(number).text(" (").text(signal_name(number));
  out.text(") received by PID ").number(::getpid());
}

void on_fatal_signal(int number) {
  FixedText line;
  line.text(prepared.prefix.data());
  describe_death(line, number);
  line.text("\n");
  static_cast<void>(!::write(STDERR_FILENO, line.data(), line.size()));
  if (prepared.path[0] != '\0') {
    FixedText json;
    json.text("{\"message\": {\"message\": \"");
    describe_death(json, number);
    json.text("\", \"extraInfo\": {\"py_callstack\": \"\", \"timestamp\": \"");
    json.number(::time(nullptr)).text("\"}}}");
    write_error_file_in_signal(prepared.path.data(), prepared.temporary_path.data(), json.data(),
                               json.size());
  }
  // SA_RESETHAND has restored the default action, and SA_NODEFER lets the signal through at once.
  ::raise(number);
}

template <std::size_t N>
bool fill(std::array<char, N>& field, const std::string& text) {
  if (text.size() >= field.size()) return false;
  std::memcpy(field.data(), text.c_str(), text.size() + 1);
  return true;
}

}  // namespace

void install_fatal_signal_handlers(const std::string& error_file, int rank) {
  if (!error_file.empty()) {
    // A path the kernel would refuse anyway: no file then, the line on stderr remains.
    const bool fits =
        fill(prepared.temporary_path, fmt::format("{}.{}.signal.tmp", error_file, ::getpid())) &&
        fill(prepared.path, error_file);
    if (!fits) prepared.path[0] = '\0';
  }
  static_cast<void>(fill(prepared.prefix, fmt::format("rank {}: ", rank)));
  stack_t stack{};
  stack.ss_sp = alternate_stack.data();
  stack.ss_size = alternate_stack.size();
  // Without it only a stack overflow goes unrecorded; everything else works.
  static_cast<void>(::sigaltstack(&stack, nullptr));
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    struct sigaction present {};
    if (::sigaction(number, nullptr, &present) != 0 || present.sa_handler != SIG_DFL) continue;
    struct sigaction ours {};
    ours.sa_handler = &on_fatal_signal;
    ours.sa_flags = static_cast<int>(SA_RESETHAND) | SA_NODEFER | SA_ONSTACK;
    sigemptyset(&ours.sa_mask);
    static_cast<void>(::sigaction(number, &ours, nullptr));
  }
}

}  // namespace cpprun
