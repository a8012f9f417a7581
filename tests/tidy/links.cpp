// SPDX-License-Identifier: BSD-3-Clause
#include "tests/tidy/links.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <set>

namespace cpprun::tidy {

namespace {

// What stands between "](" and ")" on that line, without the section behind a '#'.
std::vector<std::string> targets_in(std::string_view line) {
  std::vector<std::string> targets;
  for (auto at = line.find("]("); at != std::string_view::npos; at = line.find("](", at + 1)) {
    const auto end = line.find(')', at);
    if (end == std::string_view::npos) break;
    const auto target = line.substr(at + 2, end - at - 2);
    targets.emplace_back(target.substr(0, target.find('#')));
  }
  return targets;
}

constexpr std::array<std::string_view, 6> link_rooms{"launcher/", "rendezvous/", "worker/",
                                                     "proto/",    "tests/",      "docs/"};
constexpr std::array<std::string_view, 5> link_endings{".cpp", ".h", ".py", ".sh", ".md"};

bool in_path(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 ||
         std::string_view("_./-").find(letter) != std::string_view::npos;
}

// Every word on that line that starts with a room and ends as a source or a page does. What a shell
// variable stands before, "$source/worker/run.h", starts at the room.
std::vector<std::string> files_named_in(std::string_view line) {
  std::vector<std::string> files;
  for (std::size_t begin = 0; begin < line.size();) {
    std::size_t end = begin;
    while (end < line.size() && in_path(line[end])) ++end;
    auto word = line.substr(begin, end - begin);
    const bool after_variable = begin > 0 && line[begin - 1] == '$';
    if (after_variable) word.remove_prefix(std::min(word.size(), word.find('/')));
    if (after_variable && !word.empty()) word.remove_prefix(1);
    while (word.ends_with('.')) word.remove_suffix(1);
    const auto starts = [&word](std::string_view room) { return word.starts_with(room); };
    const auto ends = [&word](std::string_view ending) { return word.ends_with(ending); };
    if (std::any_of(link_rooms.begin(), link_rooms.end(), starts) &&
        std::any_of(link_endings.begin(), link_endings.end(), ends)) {
      files.emplace_back(word);
    }
    begin = end + 1;
  }
  return files;
}

bool names_files(std::string_view path) {
  if (path == "CHANGELOG.md" || path == "docs/decisions.md") return false;
  return path.ends_with(".md") || path.ends_with(".sh") || path.ends_with("CMakeLists.txt") ||
         path == "dev" || path == ".ci/run";
}

// CMake's way to say "in this folder" becomes a path like every other.
std::string with_folder(std::string_view line, const std::string& path) {
  constexpr std::string_view here = "${CMAKE_CURRENT_SOURCE_DIR}/";
  std::string whole(line);
  for (auto at = whole.find(here); at != std::string::npos; at = whole.find(here)) {
    whole.replace(at, here.size(), path.substr(0, path.rfind('/') + 1));
  }
  return whole;
}

}  // namespace

std::vector<Violation> check_links(const Tree& tree) {
  std::vector<Violation> violations;
  for (const auto& page : tree) {
    if (!page.path.ends_with(".md")) continue;
    const auto folder = std::filesystem::path(page.path).parent_path();
    int number = 0;
    for (const auto line : lines_of(page.text)) {
      ++number;
      for (const auto& target : targets_in(line)) {
        if (!target.ends_with(".md") || target.find("://") != std::string::npos) continue;
        const std::string path = (folder / target).lexically_normal().generic_string();
        if (source_at(tree, path) != nullptr) continue;
        violations.push_back({page.path, number,
                              fmt::format("links to {}, which is not there", path),
                              "name the page that has it now"});
      }
    }
  }
  return violations;
}

std::vector<Violation> check_named_files(const Tree& tree) {
  std::set<std::string_view> there;
  for (const auto& source : tree) there.insert(source.path);
  std::vector<Violation> violations;
  for (const auto& source : tree) {
    if (!names_files(source.path)) continue;
    int number = 0;
    for (const auto line : lines_of(source.text)) {
      ++number;
      for (const auto& file : files_named_in(with_folder(line, source.path))) {
        if (there.count(file) != 0 || file.find("NAME") != std::string::npos) continue;
        violations.push_back({source.path, number,
                              fmt::format("names {}, which is not there", file),
                              "name the file where it is now"});
      }
    }
  }
  return violations;
}

}  // namespace cpprun::tidy
