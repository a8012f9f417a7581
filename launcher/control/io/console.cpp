// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/io/console.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "proto/text.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/io/program.h"

namespace cpprun::io {

namespace {

constexpr std::size_t usual_width = 80;
constexpr std::size_t usual_height = 24;

winsize terminal_size() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return {};
  return size;
}

}  // namespace

Canvas canvas_of_stdout(const Environment& environment) {
  if (::isatty(STDOUT_FILENO) != 1) return {};
  const std::string* no_colour = find_variable(environment, "NO_COLOR");
  const std::string* kind = find_variable(environment, "TERM");
  const bool is_refused =
      (no_colour != nullptr && !no_colour->empty()) || kind == nullptr || *kind == "dumb";
  const std::size_t width = terminal_size().ws_col;
  return {.width = width == 0 ? usual_width : width, .has_colour = !is_refused};
}

std::size_t height_of_terminal() {
  const std::size_t height = terminal_size().ws_row;
  return height == 0 ? usual_height : height;
}

bool print(std::string_view text) {
  return print_or_exit("cpprunctl", text);
}

void report_error(std::string_view sentence, std::string_view hint) {
  const auto second = hint.empty() ? std::string() : fmt::format("  hint: {}\n", plain_line(hint));
  (void)write_all(STDERR_FILENO, fmt::format("cpprunctl: {}\n{}", plain_line(sentence), second));
}

namespace {

// The alternate screen without a cursor, and back.
constexpr std::string_view own_screen = "\x1b[?1049h\x1b[?25l";
constexpr std::string_view screen_before = "\x1b[?25h\x1b[?1049l";

sigset_t heard_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int each : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH}) {
    ::sigaddset(&set, each);
  }
  return set;
}

}  // namespace

Result<LiveTerminal> LiveTerminal::take() {
  LiveTerminal terminal;
  if (::tcgetattr(STDIN_FILENO, &terminal.before_) != 0) {
    return failure("cannot read the keyboard (terminal): " + errno_text(errno));
  }
  const sigset_t heard = heard_signals();
  ::sigprocmask(SIG_BLOCK, &heard, nullptr);
  terminal.signals_ = FileDescriptor(::signalfd(-1, &heard, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!terminal.signals_) {
    ::sigprocmask(SIG_UNBLOCK, &heard, nullptr);
    return failure("cannot receive signals: " + errno_text(errno));
  }
  terminal.is_mine_ = true;
  terminal.enter();
  return terminal;
}

LiveTerminal::LiveTerminal(LiveTerminal&& other) noexcept
    : signals_(std::move(other.signals_)),
      before_(other.before_),
      is_mine_(std::exchange(other.is_mine_, false)) {}

LiveTerminal::~LiveTerminal() {
  if (!is_mine_) return;
  leave();
  const sigset_t heard = heard_signals();
  ::sigprocmask(SIG_UNBLOCK, &heard, nullptr);
}

// Keys arrive one by one without echo. Keys that send signals still do.
void LiveTerminal::enter() const {
  termios raw = before_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  ::tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
  write_all(STDOUT_FILENO, own_screen);
}

void LiveTerminal::leave() const {
  write_all(STDOUT_FILENO, screen_before);
  ::tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
}

// Gives the terminal back to the shell until we are continued.
void LiveTerminal::pause() const {
  leave();
  ::raise(SIGSTOP);
  enter();
}

bool LiveTerminal::show(const std::vector<std::string>& lines) const {
  std::string text = "\x1b[H";
  for (std::size_t at = 0; at < lines.size(); ++at) {
    if (at > 0) text += "\r\n";
    text += lines[at] + "\x1b[K";
  }
  text += "\x1b[J";
  return write_all(STDOUT_FILENO, text) == text.size();
}

LiveTerminal::News LiveTerminal::wait(Duration timeout) {
  std::array<pollfd, 2> watched{pollfd{STDIN_FILENO, POLLIN, 0}, pollfd{signals_.get(), POLLIN, 0}};
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(timeout).count();
  if (::poll(watched.data(), watched.size(), static_cast<int>(milliseconds)) <= 0) return {};
  News news;
  signalfd_siginfo signal{};
  while (::read(signals_.get(), &signal, sizeof signal) == sizeof signal) {
    const int number = static_cast<int>(signal.ssi_signo);
    if (number == SIGTSTP) {
      pause();
    } else if (number != SIGWINCH) {
      news.signal = number;
    }
  }
  if (watched[0].revents == 0) return news;
  std::array<char, 64> keys;
  const ssize_t count = ::read(STDIN_FILENO, keys.data(), keys.size());
  if (count > 0) news.keys.assign(keys.data(), static_cast<std::size_t>(count));
  news.is_gone = count == 0 || (watched[0].revents & (POLLHUP | POLLERR)) != 0;
  return news;
}

}  // namespace cpprun::io
