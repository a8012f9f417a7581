// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/host_names.h"

#include <algorithm>
#include <utility>

#include "proto/text.h"

namespace cpprun {

namespace {

// The words of a line of a configuration file, without its remark.
std::vector<std::string> words_of(std::string_view line) {
  line = line.substr(0, line.find_first_of("#;"));
  std::vector<std::string> words;
  std::string word;
  for (const char letter : std::string(line) + ' ') {
    const bool is_blank = letter == ' ' || letter == '\t' || letter == '\r';
    if (!is_blank) word += letter;
    if (is_blank && !word.empty()) words.push_back(std::exchange(word, {}));
  }
  return words;
}

// As names are written in HTTP: a dot at the end says that nothing follows.
std::string without_last_dot(std::string name) {
  if (name.ends_with('.')) name.pop_back();
  return name;
}

void add(HostNames& names, std::string name) {
  name = without_last_dot(std::move(name));
  if (!name.empty() && std::ranges::find(names, name) == names.end()) names.push_back(name);
}

}  // namespace

HostNames host_names(HostNames given, const HostFiles& files) {
  HostNames names;
  for (std::string& each : given) add(names, std::move(each));
  const std::string plain = without_last_dot(files.host).substr(0, files.host.find('.'));
  add(names, files.host);
  add(names, plain);
  if (plain.empty()) return names;
  for (const std::string_view line : split(files.resolv, '\n')) {
    const auto words = words_of(line);
    if (words.empty() || (words[0] != "search" && words[0] != "domain")) continue;
    for (std::size_t at = 1; at < words.size(); ++at) {
      if (words[at] != ".") add(names, plain + "." + words[at]);
    }
  }
  for (const std::string_view line : split(files.hosts, '\n')) {
    const auto words = words_of(line);
    const bool is_own = std::ranges::any_of(
        words, [&](const std::string& word) { return word == files.host || word == plain; });
    for (std::size_t at = 1; is_own && at < words.size(); ++at) add(names, words[at]);
  }
  return names;
}

}  // namespace cpprun
