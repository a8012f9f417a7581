// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// All mistakes of a command line, in the order of the help, so that everything to be changed is
// reported at once.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace cpprun {

class Mistakes {
 public:
  static constexpr int before_flags = -1;         // words that are no flag at all
  static constexpr int after_flags = 2147483647;  // the script

  void add(int place, std::string sentence) { all_.emplace_back(place, std::move(sentence)); }
  bool empty() const { return all_.empty(); }

  // In order of place; those of one place as they were added.
  std::vector<std::string> sentences() const {
    auto sorted = all_;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<std::string> sentences;
    for (auto& [place, sentence] : sorted) sentences.push_back(std::move(sentence));
    return sentences;
  }

 private:
  std::vector<std::pair<int, std::string>> all_;
};

}  // namespace cpprun
