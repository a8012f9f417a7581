// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/io/console.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

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

void complain(std::string_view sentence, std::string_view hint) {
  const auto second = hint.empty() ? std::string() : fmt::format("  hint: {}\n", plain_line(hint));
  (void)write_all(STDERR_FILENO, fmt::format("cpprunctl: {}\n{}", plain_line(sentence), second));
}

}  // namespace cpprun::io
