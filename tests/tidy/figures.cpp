// SPDX-License-Identifier: BSD-3-Clause
#include "tests/tidy/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace cpprun::tidy {

namespace {

int comment_lines_in(std::string_view text) {
  const std::string comments = comments_of(text);
  const auto lines = lines_of(comments);
  return static_cast<int>(std::count_if(lines.begin(), lines.end(), [](std::string_view line) {
    return line.find_first_not_of(" \t") != std::string_view::npos;
  }));
}

RoomFigures summed(std::string room, const std::vector<const Source*>& sources) {
  RoomFigures figures{.room = std::move(room), .files = static_cast<int>(sources.size())};
  std::vector<int> lengths;
  for (const auto* source : sources) {
    lengths.push_back(static_cast<int>(lines_of(source->text).size()));
    figures.lines += lengths.back();
    figures.comment_lines += comment_lines_in(source->text);
  }
  std::sort(lengths.begin(), lengths.end());
  figures.median_lines = lengths[(lengths.size() - 1) / 2];
  figures.longest_lines = lengths.back();
  return figures;
}

}  // namespace

std::string room_with_figures(std::string_view path) {
  int depth = is_product(path) ? 2 : 1;
  if (path.starts_with("worker/torch/")) depth = 3;
  std::size_t end = 0;
  for (; depth > 0; --depth) {
    const auto slash = path.find('/', end == 0 ? 0 : end + 1);
    if (slash == std::string_view::npos) break;
    end = slash;
  }
  if (end == 0) return ".";
  const auto room = path.substr(0, end);
  return std::string(room.ends_with("/io") ? room.substr(0, room.size() - 3) : room);
}

std::vector<RoomFigures> figures_of(const Tree& tree) {
  std::map<std::string, std::vector<const Source*>> rooms;
  std::vector<const Source*> all;
  for (const auto& source : tree) {
    if (!is_cpp(source.path)) continue;
    rooms[room_with_figures(source.path)].push_back(&source);
    all.push_back(&source);
  }
  std::vector<RoomFigures> figures;
  for (const auto& [room, sources] : rooms) figures.push_back(summed(room, sources));
  if (!all.empty()) figures.push_back(summed("all", all));
  return figures;
}

std::string to_text(const std::vector<RoomFigures>& rooms) {
  std::string table = fmt::format("{:<26}{:>6}{:>8}{:>8}{:>9}{:>10}\n", "room", "files", "lines",
                                  "median", "longest", "comments");
  for (const auto& room : rooms) {
    table += fmt::format("{:<26}{:>6}{:>8}{:>8}{:>9}{:>8} %\n", room.room, room.files, room.lines,
                         room.median_lines, room.longest_lines,
                         room.lines == 0 ? 0 : 100 * room.comment_lines / room.lines);
  }
  return table;
}

}  // namespace cpprun::tidy
