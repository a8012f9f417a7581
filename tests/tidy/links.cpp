// SPDX-License-Identifier: BSD-3-Clause
#include "tests/tidy/links.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

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

}  // namespace

std::vector<Violation> check_links(const std::vector<Source>& tree) {
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
        const bool there = std::any_of(tree.begin(), tree.end(), [&path](const Source& source) {
          return source.path == path;
        });
        if (there) continue;
        violations.push_back({page.path, number,
                              fmt::format("links to {}, which is not there", path),
                              "name the page that has it now"});
      }
    }
  }
  return violations;
}

}  // namespace cpprun::tidy
