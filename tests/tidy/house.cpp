// SPDX-License-Identifier: BSD-3-Clause
#include "tests/tidy/house.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "tests/tidy/classes.h"
#include "tests/tidy/guide.h"
#include "tests/tidy/includes.h"
#include "tests/tidy/layers.h"
#include "tests/tidy/limits.h"
#include "tests/tidy/links.h"
#include "tests/tidy/shape.h"
#include "tests/tidy/words.h"

namespace cpprun::tidy {

namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 8> directories = {
    "proto", "rendezvous", "launcher", "worker", "tests", "docs", "cmake", ".ci"};
constexpr std::array<std::string_view, 7> endings = {".cpp",   ".h",  ".c", ".py",
                                                     ".cmake", ".md", ".sh"};

bool is_ours(const fs::path& path) {
  const std::string name = path.filename().string();
  if (name.ends_with(".txt") && path.parent_path().filename() == "tidy") return true;
  if (name == "CMakeLists.txt" || name == "dev" || name == "run") return true;
  return std::any_of(endings.begin(), endings.end(),
                     [&name](std::string_view ending) { return name.ends_with(ending); });
}

Source read_source(const fs::path& root, const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {fs::relative(path, root).generic_string(),
          {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()}};
}

// Without the line of its license tag: a page shows the program alone.
std::string without_tag(std::string_view text) {
  std::string rest(text);
  const auto at = rest.find("SPDX-License-");
  if (at == std::string::npos) return rest;
  const auto begin = rest.rfind('\n', at) + 1;  // 0 on the first line
  return rest.erase(begin, rest.find('\n', at) - begin + 1);
}

// "proto/link/codec.cpp" → "codec_test.cpp" and "link_codec_test.cpp". What reads and writes a noun
// as JSON (report_json.cpp) may be tested together with the noun.
std::vector<std::string> test_names_of(std::string_view path) {
  path.remove_suffix(4);
  const auto room_end = path.find('/');
  std::string inner(path.substr(room_end + 1));
  std::string last = inner.substr(inner.rfind('/') == std::string::npos ? 0 : inner.rfind('/') + 1);
  std::replace(inner.begin(), inner.end(), '/', '_');
  std::vector<std::string> names = {last + "_test.cpp", inner + "_test.cpp"};
  if (last.ends_with("_json")) names.push_back(last.substr(0, last.size() - 5) + "_test.cpp");
  return names;
}

bool is_test_file(std::string_view path) {
  return path.ends_with("_test.cpp") || path.ends_with("_test.py") || path.ends_with("_test.sh");
}

// The tests that a CMakeLists.txt names, by their paths from its directory, after "${here}/" or
// alone. Comments do not count.
std::vector<std::string> tests_named_in(std::string_view text) {
  std::vector<std::string> tests;
  const auto ends_word = [](char c) {
    return std::string_view("\"(){};").find(c) != std::string_view::npos;
  };
  for (const auto line : lines_of(text)) {
    std::string words(line.substr(0, line.find('#')));
    std::replace_if(words.begin(), words.end(), ends_word, ' ');
    std::istringstream stream(words);
    for (std::string word; stream >> word;) {
      if (is_test_file(word)) tests.push_back(word.substr(word.starts_with('/') ? 1 : 0));
    }
  }
  return tests;
}

bool wants_a_test(std::string_view path) {
  return path.ends_with(".cpp") && !is_test(path) && !in_io(path) && !is_program(path) &&
         !path.starts_with("cmake/");
}

using Rule = std::vector<Violation> (*)(const Source&);
constexpr std::array<Rule, 13> rules = {
    check_directions,  check_libraries,   check_effect_words, check_environment_words,
    check_code_words,  check_prose_words, check_file_name,    check_length,
    check_functions,   check_line_ends,   check_title,        check_license_tag,
    check_io_namespace};

}  // namespace

Tree read_tree(const std::string& directory) {
  const fs::path root(directory);
  Tree tree;
  for (const auto name : directories) {
    if (!fs::exists(root / name)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / name)) {
      if (entry.is_regular_file() && is_ours(entry.path())) {
        tree.push_back(read_source(root, entry.path()));
      }
    }
  }
  for (const auto& entry : fs::directory_iterator(root)) {
    if (entry.is_regular_file() && is_ours(entry.path())) {
      tree.push_back(read_source(root, entry.path()));
    }
  }
  std::sort(tree.begin(), tree.end(),
            [](const Source& a, const Source& b) { return a.path < b.path; });
  return tree;
}

void write_limits(const std::string& root) {
  for (const auto& table : limits_of(read_tree(root))) {
    std::ofstream(fs::path(root) / table.path, std::ios::binary) << table.text;
  }
}

std::vector<Violation> check_each_class_has_a_test(const Tree& tree) {
  std::vector<Violation> violations;
  for (const auto& source : tree) {
    if (!wants_a_test(source.path)) continue;
    const std::string room = "tests/" + std::string(room_of(source.path)) + "/";
    const std::string directory = "tests/" + std::string(directory_of(source.path));
    const auto names = test_names_of(source.path);
    const std::string header = source.path.substr(0, source.path.size() - 4) + ".h";
    const bool tested = std::any_of(tree.begin(), tree.end(), [&](const Source& test) {
      const auto place = directory_of(test.path);
      if ((place != directory && place != room) || !test.path.ends_with("_test.cpp")) return false;
      const auto name = test.path.substr(place.size());
      return std::find(names.begin(), names.end(), name) != names.end() ||
             test.text.find(fmt::format("\n#include \"{}\"\n", header)) != std::string::npos;
    });
    if (tested) continue;
    violations.push_back(
        {source.path, 0, "nothing tests this file",
         fmt::format("write {}{}, or include {} in the *_test.cpp of that directory "
                     "that tests it",
                     directory, names.front(), header)});
  }
  return violations;
}

std::vector<Violation> check_each_room_has_a_readme(const Tree& tree) {
  std::vector<Violation> violations;
  std::set<std::string> rooms;
  for (const auto& source : tree) {
    const bool counts = is_cpp(source.path) && !is_test(source.path) && !in_io(source.path);
    if (!counts || source.path.starts_with("cmake/")) continue;
    // A copy of another project's directories is described where it begins.
    if (source.path.find("/gloo_shim/") != std::string::npos) continue;
    rooms.insert(source.path.substr(0, source.path.rfind('/')));
  }
  for (const auto& room : rooms) {
    if (source_at(tree, room + "/README.md") != nullptr) continue;
    violations.push_back({room + "/README.md", 0, "this room has no README.md",
                          "say in a few lines what lives here, what does not, and which way it may "
                          "include"});
  }
  return violations;
}

std::vector<Violation> check_each_test_has_a_target(const Tree& tree) {
  std::set<std::string> named;
  for (const auto& source : tree) {
    if (!source.path.ends_with("CMakeLists.txt")) continue;
    const std::string directory(directory_of(source.path));
    for (const auto& path : tests_named_in(source.text)) named.insert(directory + path);
  }
  std::vector<Violation> violations;
  for (const auto& source : tree) {
    if (!is_test(source.path) || !is_test_file(source.path) || named.contains(source.path))
      continue;
    violations.push_back({source.path, 0, "no target has this test, so it never runs",
                          "name it in a cpprun_test() or add_test() of the CMakeLists.txt of its "
                          "directory or of one above, by its path from there"});
  }
  return violations;
}

std::vector<Violation> check_shown_programs(const Tree& tree) {
  std::vector<Violation> violations;
  for (const auto& source : tree) {
    const std::string path = source.path.starts_with("tests/embed/from_libtorch/")
                                 ? "docs/cpp-from-libtorch.md"
                                 : "docs/embedding.md";
    const auto* page = source_at(tree, path);
    const bool program = source.path.ends_with(".cpp") || source.path.ends_with(".c") ||
                         source.path.ends_with(".py");
    if (!source.path.starts_with("tests/embed/") || !program) continue;
    if (page != nullptr && page->text.find(without_tag(source.text)) != std::string::npos) continue;
    violations.push_back({source.path, 0, path + " does not show this program as it is",
                          "copy it there: what is shown is what is tested"});
  }
  return violations;
}

std::vector<Violation> check_house(const Tree& tree) {
  std::vector<Violation> violations;
  const auto add = [&violations](std::vector<Violation> more) {
    std::move(more.begin(), more.end(), std::back_inserter(violations));
  };
  for (const auto& source : tree) {
    for (const auto rule : rules) add(rule(source));
    const bool has_header =
        source.path.ends_with(".cpp") &&
        source_at(tree, source.path.substr(0, source.path.size() - 4) + ".h") != nullptr;
    if (is_cpp(source.path)) add(check_own_header(source, has_header));
    add(check_test_names(source));
  }
  add(check_layers(tree));
  add(check_methods(tree));
  add(check_sizes(tree));
  add(check_prose(tree));
  add(check_each_class_has_a_test(tree));
  add(check_each_room_has_a_readme(tree));
  add(check_each_test_has_a_target(tree));
  add(check_shown_programs(tree));
  add(check_links(tree));
  add(check_named_files(tree));
  add(check_troubleshooting(tree));
  std::stable_sort(violations.begin(), violations.end());
  return violations;
}

}  // namespace cpprun::tidy
