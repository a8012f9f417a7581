// SPDX-License-Identifier: BSD-3-Clause
// Conversations in bytes: with a store, and with the decoder of the link.

#include <fmt/format.h>

#include <cctype>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

#include "proto/link/codec.h"
#include "tests/rendezvous/store/string_sockets.h"
#include "tests/transcripts/machine_text.h"

namespace cpprun::transcripts {

namespace {

std::string eight_bytes(std::uint64_t number) {
  std::string bytes;
  for (int shift = 0; shift < 64; shift += 8) {
    bytes.push_back(static_cast<char>((number >> shift) & 0xFF));
  }
  return bytes;
}

// One word of a line of bytes.
std::string bytes_of(const std::string& word) {
  const bool is_quoted = word.size() >= 2 && word.front() == word.back();
  if (is_quoted && word.front() == '\'') return word.substr(1, word.size() - 2);
  if (is_quoted && word.front() == '"') {
    return eight_bytes(word.size() - 2) + word.substr(1, word.size() - 2);
  }
  if (word.starts_with('#')) {
    return eight_bytes(static_cast<std::uint64_t>(std::stoll(word.substr(1))));
  }
  if (word.size() == 2) return std::string(1, static_cast<char>(std::stoi(word, nullptr, 16)));
  throw std::invalid_argument("bytes are 'text', \"text\", #5 or 0a, and not " + word);
}

std::string bytes_from(const Words& said, std::size_t first) {
  std::string bytes;
  for (std::size_t i = first; i < said.size(); ++i) bytes += bytes_of(said.at(i));
  return bytes;
}

std::string shown(std::string_view bytes) {
  std::string text;
  for (const char each : bytes) {
    const auto byte = static_cast<unsigned char>(each);
    if (byte == 0) {
      text += "\\0";
    } else if (std::isprint(byte) != 0 && each != '\\') {
      text += each;
    } else {
      text += fmt::format("\\x{:02x}", byte);
    }
  }
  return text;
}

class StorePlayer : public Player {
 public:
  std::vector<std::string> answer(const Words& said) override {
    if (said.at(0) == "at") {
      sockets_.pass(duration_of(said.at(1)) - (sockets_.now - began_));
      return outputs();
    }
    const int client = client_of(said.at(0));
    if (said.at(1) == "sends") {
      sockets_.say(client, bytes_from(said, 2));
    } else if (said.at(1) == "takes") {
      take(client, said.at(2));
    } else if (said.at(1) == "leaves") {
      sockets_.leave(client);
      left_.insert(client);
    } else {
      throw std::invalid_argument("a client sends, takes or leaves");
    }
    sockets_.until_quiet();
    return outputs();
  }

 private:
  int client_of(const std::string& name) {
    const auto [found, is_new] = clients_.try_emplace(name, 0);
    if (is_new) found->second = sockets_.dial();
    return found->second;
  }

  void take(int client, const std::string& amount) {
    if (amount == "nothing") {
      sockets_[client].room = 0;
    } else {
      sockets_.take(client, std::stoul(amount));
    }
  }

  // What was sent to each client, in the order of their names; many bytes are summarised.
  std::vector<std::string> outputs() {
    constexpr std::size_t shown_max = 100;
    std::vector<std::string> lines;
    for (const auto& [name, number] : clients_) {
      StringSockets::Client& client = sockets_[number];
      const std::string heard = std::exchange(client.heard, {});
      if (heard.size() > shown_max) {
        lines.push_back(fmt::format("{} is told {} bytes", name, heard.size()));
      } else if (!heard.empty()) {
        lines.push_back(fmt::format("{} is told {}", name, shown(heard)));
      }
      if (client.handed_over && left_.insert(number).second) {
        lines.push_back(fmt::format("{} is an agent: {}", name, shown(*client.handed_over)));
      }
      if (client.end && left_.insert(number).second) {
        lines.push_back(fmt::format("{} is closed: {}", name, *client.end));
      }
    }
    return lines;
  }

  StringSockets sockets_{{.outbox_bytes_max = 100}};
  const TimePoint began_ = sockets_.now;
  std::map<std::string, int> clients_;
  std::set<int> left_;  // closed clients that were reported
};

// The received bytes are a message, part of one, or a reason to close the link.
class LinkPlayer : public Player {
 public:
  std::vector<std::string> answer(const Words& said) override {
    if (said.at(0) == "frame") {
      try {
        return {json_of(message_of(said.rest(1)))};
      } catch (const std::invalid_argument& refused) {
        return {"refused: " + std::string(refused.what())};
      }
    }
    if (said.at(0) != "bytes") throw std::invalid_argument("a link takes a frame or bytes");
    const auto decoded = link::decode(bytes_from(said, 1));
    if (!decoded) return {"refused: " + decoded.error().reason};
    if (!*decoded) return {"not all of it has come"};
    return {json_of((*decoded)->message)};
  }
};

}  // namespace

std::unique_ptr<Player> make_store_player(const Words&) {
  return std::make_unique<StorePlayer>();
}

std::unique_ptr<Player> make_link_player(const Words&) {
  return std::make_unique<LinkPlayer>();
}

}  // namespace cpprun::transcripts
