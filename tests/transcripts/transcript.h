// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A conversation as text: input to a machine, and below it, indented, its output.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clock.h"

namespace cpprun::transcripts {

// One line of input, split at blanks: "1 joins host=alpha idle".
class Words {
 public:
  explicit Words(const std::string& line);

  // The word at that index; empty if there are fewer.
  std::string at(std::size_t index) const { return index < words_.size() ? words_[index] : ""; }
  std::size_t size() const { return words_.size(); }
  // Everything from that word on, as it was written.
  std::string rest(std::size_t index) const;
  bool has(const std::string& word) const;
  // The value of "name=value".
  std::optional<std::string> value(const std::string& name) const;
  int number(const std::string& name, int otherwise) const;
  Duration duration(const std::string& name, Duration otherwise) const;
  // The range of "nodes=1:3"; a single number is both ends.
  std::pair<int, int> range(const std::string& name, std::pair<int, int> otherwise) const;

 private:
  std::string line_;
  std::vector<std::string> words_;
  std::vector<std::size_t> begins_;
};

// "1.5s", "20ms"
Duration duration_of(const std::string& text);

// The meaning of an input line in one kind of conversation.
class Player {
 public:
  virtual ~Player() = default;
  // Returns the output. Throws std::invalid_argument with the part that it cannot parse.
  virtual std::vector<std::string> answer(const Words& said) = 0;
};

// The conversation's first line selects the player.
std::unique_ptr<Player> make_coordinator_player(const Words& first);
std::unique_ptr<Player> make_agent_player(const Words& first);
std::unique_ptr<Player> make_supervisor_player(const Words& first);
std::unique_ptr<Player> make_store_player(const Words& first);
std::unique_ptr<Player> make_link_player(const Words& first);

// The same conversation with today's output.
std::string replay(const std::string& conversation);

// "line 12: …" of both; empty if they are equal.
std::optional<std::string> first_difference(const std::string& expected, const std::string& got);

}  // namespace cpprun::transcripts
