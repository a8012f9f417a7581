// SPDX-License-Identifier: BSD-3-Clause
#include "tests/sim/secure_wire.h"

#include <dlfcn.h>
#include <openssl/rand.h>

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

// OpenSSL draws from this stream of the seed while the scope exists, so that a run can be repeated
// byte for byte. Outside of all scopes it draws from a fixed stream.
class RandomScope {
 public:
  explicit RandomScope(Random& random) : before_(std::exchange(current(), &random)) {}
  ~RandomScope() { current() = before_; }
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

  static void install() {
    static const RAND_METHOD method{.seed = nullptr,
                                    .bytes = fill,
                                    .cleanup = nullptr,
                                    .add = nullptr,
                                    .pseudorand = fill,
                                    .status = [] { return 1; }};
    // Looked up by name, because OpenSSL 3 deprecates it in favour of providers.
    void* const library = ::dlopen("libcrypto.so.3", RTLD_NOW | RTLD_NOLOAD);
    void* const found = library ? ::dlsym(library, "RAND_set_rand_method") : nullptr;
    if (!found || reinterpret_cast<int (*)(const RAND_METHOD*)>(found)(&method) != 1) {
      throw std::runtime_error(
          "cannot set OpenSSL's source of random numbers; is libcrypto.so.3 loaded?");
    }
  }

 private:
  static Random*& current() {
    static thread_local Random outside{0};
    static thread_local Random* drawn = &outside;
    return drawn;
  }
  static int fill(unsigned char* bytes, int count) {
    for (int i = 0; i < count; ++i) bytes[i] = static_cast<unsigned char>(current()->next());
    return 1;
  }

  Random* before_;
};

// Shared by all agents and by all coordinators: there is only one secret.
struct Contexts {
  OpenSsl openssl = [] {
    auto opened = must_be(open_openssl());
    RandomScope::install();
    return opened;
  }();
  Secret secret{"simulated", make_key_memory()};
  std::shared_ptr<SecureContext> agent = must_be(SecureContext::of_client(openssl, secret));
  std::shared_ptr<SecureContext> coordinator = must_be(SecureContext::of_server(openssl, {secret}));
};

const Contexts& contexts() {
  static const Contexts all;
  return all;
}

}  // namespace

SecureWire::SecureWire(Random agent, Random coordinator) {
  const Contexts& all = contexts();
  at(Side::agent).random = agent;
  at(Side::coordinator).random = coordinator;
  for (const Side side : {Side::agent, Side::coordinator}) {
    const RandomScope random_scope(at(side).random);
    at(side).channel =
        std::make_unique<SecureChannel>(side == Side::agent ? all.agent : all.coordinator);
  }
}

std::string SecureWire::begin() {
  const RandomScope random_scope(at(Side::agent).random);
  SecureChannel& channel = *at(Side::agent).channel;
  (void)channel.say(link::preamble);  // held back until the other side has authenticated itself
  return channel.take_outgoing();
}

std::string SecureWire::say(Side from, const Packet& packet) {
  End& end = at(from);
  const RandomScope random_scope(end.random);
  end.said.push_back(packet.kind == Packet::Kind::heartbeat ? link::encode(packet.heartbeat)
                                                            : packet.bytes);
  // A side that can no longer send learns of it when it receives.
  (void)end.channel->say(end.said.back());
  return end.channel->take_outgoing();
}

std::string SecureWire::finish(Side from) {
  const RandomScope random_scope(at(from).random);
  SecureChannel& channel = *at(from).channel;
  channel.finish();
  return channel.take_outgoing();
}

SecureWire::Heard SecureWire::hear(Side side, std::string_view bytes) {
  End& end = at(side);
  const RandomScope random_scope(end.random);
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
    // The coordinator's greeting follows its authentication.
    if (side == Side::coordinator) {
      (void)end.channel->say(link::preamble);  // established: accepted
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
      if (const auto* heartbeat = std::get_if<link::Heartbeat>(&(*decoded)->message)) {
        packet.kind = Packet::Kind::heartbeat;
        packet.heartbeat = *heartbeat;
      }
    }
    end.inbox.erase(0, packet.bytes.size());
    heard.is_true = heard.is_true && !said.empty() && said.front() == packet.bytes;
    if (!said.empty()) said.pop_front();
    heard.packets.push_back(std::move(packet));
  }
}

}  // namespace cpprun::sim
