// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A temporary directory, empty at first and removed at the end.

#include <doctest/doctest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace cpprun::integration {

class Directory {
 public:
  Directory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "cpprun_test_XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~Directory() {
    std::error_code ignored;  // a leftover directory fails no test
    std::filesystem::remove_all(path_, ignored);
  }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  const std::string& path() const { return path_; }

  std::string write(const std::string& name, std::string_view text) const {
    const std::string path = path_ + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  void make_executable(const std::string& name) const {
    std::filesystem::permissions(path_ + "/" + name, std::filesystem::perms::owner_all);
  }

  // The paths below it, relative, in order.
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path_)) {
      if (entry.is_regular_file()) {
        names.push_back(std::filesystem::relative(entry.path(), path_).string());
      }
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  // Its contents, directories included, in order.
  std::vector<std::string> entries() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  static std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

 private:
  std::string path_;
};

}  // namespace cpprun::integration
