// SPDX-License-Identifier: BSD-3-Clause
// Conversations in bytes: with a store, and with the decoder of the link.

#include <fmt/format.h>

#include <cctype>
#include <stdexcept>

#include "proto/c10d/decoder.h"
#include "proto/c10d/encoder.h"
#include "proto/link/codec.h"
#include "proto/machine.h"
#include "rendezvous/store/store.h"
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
    const ConnectionId from{std::stoul(said.at(0))};
    std::vector<std::string> lines;
    if (said.at(1) == "leaves") {
      Actions actions;
      store_.forget(from, actions);
      clients_.erase(from);
      tell(actions, lines);
      return lines;
    }
    if (said.at(1) != "sends") throw std::invalid_argument("a client sends or leaves");
    Client& client = clients_[from];
    client.bytes += bytes_from(said, 2);
    while (!client.bytes.empty() && take_one(from, client, lines)) continue;
    return lines;
  }

 private:
  struct Client {
    std::string bytes;
    c10d::Conversation conversation;
    c10d::Progress progress;
    c10d::Decoder decoder;
  };

  bool take_one(ConnectionId from, Client& client, std::vector<std::string>& lines) {
    const auto decoded = client.decoder.decode(client.bytes, client.conversation, client.progress);
    if (const auto* malformed = std::get_if<c10d::Malformed>(&decoded)) {
      lines.push_back(fmt::format("{} is closed: {}", from.value, malformed->reason));
      client.bytes.clear();
      return false;
    }
    const auto* whole = std::get_if<c10d::Complete>(&decoded);
    if (whole == nullptr) {
      lines.push_back(fmt::format("{} has more to say", from.value));
      return false;
    }
    Actions actions;
    store_.apply(from, whole->request, actions);
    tell(actions, lines);
    client.bytes.erase(0, whole->size);
    client.progress = {};
    return true;
  }

  static void tell(const Actions& actions, std::vector<std::string>& lines) {
    for (const Action& action : actions) {
      std::visit(
          Overloaded{
              [&](const Answer& m) {
                std::string bytes;
                c10d::encode(m.reply, bytes);
                lines.push_back(fmt::format("{} is told {}", m.to.value, shown(bytes)));
              },
              [&](const Parcel& m) {
                lines.push_back(fmt::format("{} is told of large values", m.to.value));
              },
              [&](const Drop& m) {
                lines.push_back(fmt::format("{} is closed: {}", m.connection.value, m.reason));
              },
          },
          action);
    }
  }

  Store store_;
  std::map<ConnectionId, Client> clients_;
};

// What has come is a message, not all of one, or a reason to end the link.
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
    if (said.at(0) != "bytes") throw std::invalid_argument("a link hears a frame or bytes");
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
