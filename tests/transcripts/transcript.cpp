// SPDX-License-Identifier: BSD-3-Clause
#include "tests/transcripts/transcript.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <sstream>
#include <stdexcept>

namespace cpprun::transcripts {

namespace {

std::unique_ptr<Player> make_player(const Words& first) {
  const std::string who = first.at(0);
  if (who == "coordinator") return make_coordinator_player(first);
  if (who == "agent") return make_agent_player(first);
  if (who == "supervisor") return make_supervisor_player(first);
  if (who == "store") return make_store_player(first);
  if (who == "link") return make_link_player(first);
  throw std::invalid_argument(
      "a conversation begins with coordinator, agent, supervisor, store or "
      "link, and not with \"" +
      who + "\"");
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace

Words::Words(const std::string& line) : line_(line) {
  std::size_t at = 0;
  while ((at = line.find_first_not_of(' ', at)) != std::string::npos) {
    const std::size_t end = std::min(line.find(' ', at), line.size());
    words_.push_back(line.substr(at, end - at));
    begins_.push_back(at);
    at = end;
  }
}

std::string Words::rest(std::size_t index) const {
  return index < begins_.size() ? line_.substr(begins_[index]) : "";
}

bool Words::has(const std::string& word) const {
  return std::find(words_.begin(), words_.end(), word) != words_.end();
}

std::optional<std::string> Words::value(const std::string& name) const {
  for (const std::string& word : words_) {
    if (word.starts_with(name + "=")) return word.substr(name.size() + 1);
  }
  return std::nullopt;
}

int Words::number(const std::string& name, int otherwise) const {
  const auto found = value(name);
  return found ? std::stoi(*found) : otherwise;
}

Duration Words::duration(const std::string& name, Duration otherwise) const {
  const auto found = value(name);
  return found ? duration_of(*found) : otherwise;
}

std::pair<int, int> Words::range(const std::string& name, std::pair<int, int> otherwise) const {
  const auto found = value(name);
  if (!found) return otherwise;
  const auto colon = found->find(':');
  const int first = std::stoi(*found);
  return {first, colon == std::string::npos ? first : std::stoi(found->substr(colon + 1))};
}

Duration duration_of(const std::string& text) {
  std::size_t end = 0;
  const double number = std::stod(text, &end);
  const std::string unit = text.substr(end);
  if (unit != "s" && unit != "ms") throw std::invalid_argument("a time is 1.5s or 20ms: " + text);
  const std::chrono::duration<double> seconds{unit == "s" ? number : number / 1000};
  return std::chrono::round<std::chrono::microseconds>(seconds);
}

std::string replay(const std::string& conversation) {
  std::string text;
  std::unique_ptr<Player> player;
  const auto answer = [&player](const Words& said) -> std::vector<std::string> {
    if (player) return player->answer(said);
    player = make_player(said);
    return {};
  };
  for (const std::string& line : lines_of(conversation)) {
    if (line.starts_with("  ")) continue;  // The output when it was written.
    text += line + "\n";
    if (line.empty() || line.starts_with('#')) continue;
    try {
      for (const std::string& each : answer(Words(line))) text += "  " + each + "\n";
    } catch (const std::exception& refused) {
      throw std::invalid_argument(fmt::format("\"{}\": {}", line, refused.what()));
    }
  }
  return text;
}

std::optional<std::string> first_difference(const std::string& expected, const std::string& got) {
  const auto wanted = lines_of(expected);
  const auto found = lines_of(got);
  const auto line_at = [](const std::vector<std::string>& lines, std::size_t index) {
    return index < lines.size() ? lines[index] : std::string{"(nothing more)"};
  };
  for (std::size_t i = 0; i < std::max(wanted.size(), found.size()); ++i) {
    if (i < wanted.size() && i < found.size() && wanted[i] == found[i]) continue;
    return fmt::format("line {}:\n  expected: {}\n  got:      {}", i + 1, line_at(wanted, i),
                       line_at(found, i));
  }
  return std::nullopt;
}

}  // namespace cpprun::transcripts
