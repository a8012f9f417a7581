// SPDX-License-Identifier: BSD-3-Clause
#include "tests/sim/secure_wire.h"

#include <cstdint>
#include <stdexcept>
#include <utility>

#include "proto/link/binary_frame.h"
#include "proto/link/codec.h"
#include "proto/secure/io/openssl_library.h"
#include "rendezvous/io/secret_file.h"

namespace cpprun::sim {

namespace {

template <class Value>
Value must_be(Result<Value> made) {
  if (!made) throw std::runtime_error(made.error().reason);
  return *std::move(made);
}

// Of all agents, and of all coordinators: nobody here has another secret.
struct Contexts {
  OpenSsl openssl = must_be(open_openssl());
  Secret secret{"simulated", make_key_memory()};
  std::shared_ptr<SecureContext> agent = must_be(SecureContext::of_client(openssl, secret));
  std::shared_ptr<SecureContext> coordinator = must_be(SecureContext::of_server(openssl, {secret}));
};

const Contexts& contexts() {
  static const Contexts all;
  return all;
}

}  // namespace

SecureWire::SecureWire() {
  at(Side::agent).channel = std::make_unique<SecureChannel>(contexts().agent);
  at(Side::coordinator).channel = std::make_unique<SecureChannel>(contexts().coordinator);
}

std::string SecureWire::begin() {
  SecureChannel& channel = *at(Side::agent).channel;
  (void)channel.say(link::preamble);  // waits until the other side has proven itself
  return channel.take_outgoing();
}

std::string SecureWire::say(Side from, const Packet& packet) {
  End& end = at(from);
  end.said.push_back(packet.kind == Packet::Kind::heartbeat ? link::encode(packet.heartbeat)
                                                            : packet.bytes);
  // Whoever cannot say it any more is told so when it listens.
  (void)end.channel->say(end.said.back());
  return end.channel->take_outgoing();
}

std::string SecureWire::finish(Side from) {
  SecureChannel& channel = *at(from).channel;
  channel.finish();
  return channel.take_outgoing();
}

SecureWire::Heard SecureWire::hear(Side side, std::string_view bytes) {
  End& end = at(side);
  Heard heard;
  const bool goes_on = end.channel->hear(bytes);
  end.inbox += end.channel->take_heard();
  heard.answer = end.channel->take_outgoing();
  if (!goes_on) {
    heard.reason = end.channel->reason();
    return heard;
  }
  if (!end.has_begun && end.inbox.size() >= link::preamble.size()) {
    if (!end.inbox.starts_with(link::preamble)) {
      heard.reason = "it does not speak the link";
      return heard;
    }
    end.inbox.erase(0, link::preamble.size());
    end.has_begun = heard.is_begun = true;
    // Its own greeting goes behind its proof.
    if (side == Side::coordinator) {
      (void)end.channel->say(link::preamble);  // established: it takes it
      heard.answer += end.channel->take_outgoing();
    }
  }
  if (end.has_begun) take_frames(side, heard);
  return heard;
}

void SecureWire::take_frames(Side side, Heard& heard) {
  End& end = at(side);
  std::deque<std::string>& said = at(side == Side::agent ? Side::coordinator : Side::agent).said;
  while (true) {
    const auto first = link::first_frame(end.inbox);
    if (!first) {
      heard.reason = first.error().reason;
      return;
    }
    if (!*first) return;
    Packet packet{.bytes = end.inbox.substr(0, sizeof(std::uint32_t) + (*first)->size())};
    if (link::carries_streams(**first)) {
      packet.kind = Packet::Kind::streams;
    } else if (const auto decoded = link::decode(packet.bytes); decoded && *decoded) {
      if (const auto* beat = std::get_if<link::Heartbeat>(&(*decoded)->message)) {
        packet.kind = Packet::Kind::heartbeat;
        packet.heartbeat = *beat;
      }
    }
    end.inbox.erase(0, packet.bytes.size());
    heard.is_true = heard.is_true && !said.empty() && said.front() == packet.bytes;
    if (!said.empty()) said.pop_front();
    heard.packets.push_back(std::move(packet));
  }
}

}  // namespace cpprun::sim
