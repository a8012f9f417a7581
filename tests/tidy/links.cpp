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

// Every word on that line that starts with a room, like a path in the tree. What a shell variable
// stands before, "$source/proto/text.h", starts at the room.
std::vector<std::string> paths_named_in(std::string_view line) {
  std::vector<std::string> paths;
  for (std::size_t begin = 0; begin < line.size();) {
    std::size_t end = begin;
    while (end < line.size() && in_path(line[end])) ++end;
    auto word = line.substr(begin, end - begin);
    const bool after_variable = begin > 0 && line[begin - 1] == '$';
    if (after_variable) word.remove_prefix(std::min(word.size(), word.find('/')));
    if (after_variable && !word.empty()) word.remove_prefix(1);
    while (word.ends_with('.')) word.remove_suffix(1);
    const auto starts = [&word](std::string_view room) { return word.starts_with(room); };
    if (std::any_of(link_rooms.begin(), link_rooms.end(), starts)) paths.emplace_back(word);
    begin = end + 1;
  }
  return paths;
}

bool is_file(std::string_view path) {
  return std::any_of(link_endings.begin(), link_endings.end(),
                     [path](std::string_view ending) { return path.ends_with(ending); });
}

// The sources of the rules, which name directories and the first part of a path as well.
bool is_rule(std::string_view path) {
  return path.starts_with("tests/tidy/") && is_cpp(path);
}

bool names_files(std::string_view path) {
  if (is_rule(path)) return true;
  if (path == "CHANGELOG.md" || path == "docs/decisions.md") return false;
  return path.ends_with(".md") || path.ends_with(".sh") || path.ends_with("CMakeLists.txt") ||
         path == "dev" || path == ".ci/run";
}

// CMake's way to say "in this directory" becomes a path like every other.
std::string with_directory(std::string_view line, const std::string& path) {
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
    const auto directory = std::filesystem::path(page.path).parent_path();
    int number = 0;
    for (const auto line : lines_of(page.text)) {
      ++number;
      for (const auto& target : targets_in(line)) {
        if (!target.ends_with(".md") || target.find("://") != std::string::npos) continue;
        const std::string path = (directory / target).lexically_normal().generic_string();
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
  std::set<std::string_view> paths;
  for (const auto& source : tree) paths.insert(source.path);
  std::vector<Violation> violations;
  for (const auto& source : tree) {
    if (!names_files(source.path)) continue;
    const bool in_rule = is_rule(source.path);
    int number = 0;
    for (const auto line : lines_of(source.text)) {
      ++number;
      for (const auto& name : paths_named_in(with_directory(line, source.path))) {
        if ((!in_rule && !is_file(name)) || name.find("NAME") != std::string::npos) continue;
        const auto found = paths.lower_bound(name);
        if (found != paths.end() && (in_rule ? found->starts_with(name) : *found == name)) continue;
        violations.push_back({source.path, number,
                              fmt::format("names {}, which does not exist", name),
                              "correct the path, or remove what is said of it"});
      }
    }
  }
  return violations;
}

}  // namespace cpprun::tidy
