// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Golden files: the bytes that a format has always had, so that a change of its codec cannot change
// them unnoticed. tests/golden/NAME.txt has a line "## value" for each value, with its bytes behind
// it. CPPRUN_REWRITE_GOLDEN=1 writes the files again.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>

namespace cpprun::testing {

// Readable, and the same bytes for an editor: anything but printable ASCII and newlines is escaped.
inline std::string escaped(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    if (byte == '\\') {
      text += "\\\\";
    } else if (byte == '\n' || (byte >= ' ' && byte <= '~')) {
      text += byte;
    } else {
      text += fmt::format("\\{:02x}", static_cast<unsigned char>(byte));
    }
  }
  return text;
}

class Golden {
 public:
  explicit Golden(const std::string& name) {
    const char* const directory = std::getenv("CPPRUN_SOURCE_DIRECTORY");
    REQUIRE(directory != nullptr);
    path_ = std::string(directory) + "/tests/golden/" + name + ".txt";
  }
  Golden(const Golden&) = delete;
  Golden& operator=(const Golden&) = delete;

  void add(const std::string& name, std::string_view bytes) {
    text_ += "## " + name + "\n" + escaped(bytes) + "\n";
  }

  // Compares everything that was added with the file.
  void check() const {
    if (std::getenv("CPPRUN_REWRITE_GOLDEN") != nullptr) std::ofstream(path_) << text_;
    std::ifstream file(path_);
    std::istringstream now(text_);
    std::string expected;
    std::string line;
    std::string value;
    while (std::getline(file, expected)) {
      if (expected.starts_with("## ")) value = expected;
      CAPTURE(value);
      REQUIRE(std::getline(now, line));
      REQUIRE(line == expected);
    }
    CHECK_FALSE(std::getline(now, line));
  }

 private:
  std::string path_;
  std::string text_;
};

// How a reader takes changed input: each member of `whole`, at any depth, is removed or replaced by
// a value of another type or range, and `read` tells the outcome. There are thousands of outcomes,
// so a golden file has only their number and a hash. CPPRUN_OUTCOMES names a file that gets them
// all, to compare two builds.
inline std::string outcomes_of(const nlohmann::json& whole,
                               const std::function<std::string(const nlohmann::json&)>& read) {
  using Json = nlohmann::json;
  const char* const dump = std::getenv("CPPRUN_OUTCOMES");
  std::ofstream all;
  if (dump != nullptr) all.open(dump, std::ios::app);
  std::size_t count = 0;
  std::uint64_t hash = 14695981039346656037U;  // FNV-1a
  const auto note = [&](const std::string& what, const Json& changed) {
    const std::string outcome = what + ": " + escaped(read(changed)) + "\n";
    for (const char byte : outcome) {
      hash = (hash ^ static_cast<unsigned char>(byte)) * 1099511628211U;
    }
    ++count;
    all << outcome;
  };
  const std::vector<Json> others = {
      Json(),           Json(-1),        Json(0),          Json(3),
      Json(2.5),        Json(1e30),      Json("x\n"),      Json(true),
      Json::array(),    Json::object(),  Json(INT64_MAX),  Json(1LL << 33),
      Json({1, 2}),     Json(1'000'000), Json({{"a", 1}}), Json({{"a", {1.5}}}),
      Json({Json("y")})};
  const std::function<void(const Json::json_pointer&, const Json&)> visit =
      [&](const Json::json_pointer& at, const Json& part) {
        if (part.is_structured()) {
          for (const auto& [key, value] : part.items()) {
            visit(part.is_array() ? at / std::stoul(key) : at / key, value);
          }
        }
        if (at.empty()) return;
        for (std::size_t i = 0; i < others.size(); ++i) {
          Json changed = whole;
          changed[at] = others[i];
          note(fmt::format("{} {}", at.to_string(), i), changed);
        }
        Json without = whole;
        Json& parent = without[at.parent_pointer()];
        if (parent.is_object()) {
          parent.erase(at.back());
        } else {
          parent.erase(std::stoul(at.back()));
        }
        note(at.to_string() + " removed", without);
      };
  visit(Json::json_pointer(), whole);
  return fmt::format("{} outcomes, {:016x}", count, hash);
}

}  // namespace cpprun::testing
