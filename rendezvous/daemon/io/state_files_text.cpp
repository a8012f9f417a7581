// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/io/state_files_text.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

namespace cpprun {

namespace {

enum What : std::uint64_t { last_number = 1, wrong, record, log, alive, end };

// Numbers in a line, which is taken away: what, of which job, of which generation, of which size.
using Line = std::array<std::uint64_t, 4>;

std::optional<Line> take_line(std::string_view& text) {
  Line line{};
  for (std::size_t at = 0; at < line.size(); ++at) {
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), line[at]);
    const auto count = static_cast<std::size_t>(rest - text.data());
    const char stop = at + 1 == line.size() ? '\n' : ' ';
    if (error != std::errc{} || count == text.size() || text[count] != stop) return std::nullopt;
    text.remove_prefix(count + 1);
  }
  return line;
}

// There may be as much of them as there is memory: none stands in two places for long.
void put_file(std::string& text, What what, StateFiles::File file) {
  text += fmt::format("{} {} {} {}\n", static_cast<std::uint64_t>(what), file.number,
                      file.generation, file.bytes.size());
  text += file.bytes;
}

}  // namespace

std::string text_of(Result<StateFiles> read) {
  if (!read) return "!" + read.error().reason;
  std::string text = "=";
  put_file(text, last_number, {.number = read->last_number});
  if (read->alive && *read->alive > WallTime{}) {
    const auto since_1970 = read->alive->time_since_epoch().count();
    put_file(text, alive, {.number = static_cast<std::uint64_t>(since_1970)});
  }
  for (const std::string& each : read->wrong) put_file(text, wrong, {.bytes = each});
  for (auto& each : read->files) put_file(text, record, std::move(each));
  for (auto& each : read->logs) put_file(text, log, std::move(each));
  put_file(text, end, {});
  return text;
}

Result<StateFiles> state_files_of(std::string_view text) {
  while (text.starts_with(still_reading)) text.remove_prefix(still_reading.size());
  if (text.starts_with("!")) return failure(std::string(text.substr(1)));
  const auto cut_off = failure("cannot be read: whoever read it was ended");
  if (!text.starts_with("=")) return cut_off;
  text.remove_prefix(1);
  StateFiles files;
  while (const auto line = take_line(text)) {
    const auto [what, number, generation, size] = *line;
    if (size > text.size()) return cut_off;
    std::string bytes(text.substr(0, size));
    text.remove_prefix(size);
    switch (static_cast<What>(what)) {
      case last_number:
        files.last_number = number;
        break;
      case wrong:
        files.wrong.push_back(std::move(bytes));
        break;
      case record:
        files.files.push_back({number, std::move(bytes)});
        break;
      case log:
        files.logs.push_back({number, std::move(bytes), generation});
        break;
      case alive:
        files.alive = WallTime{std::chrono::microseconds{number}};
        break;
      case end:
        return text.empty() ? Result<StateFiles>(std::move(files)) : cut_off;
    }
  }
  return cut_off;
}

}  // namespace cpprun
