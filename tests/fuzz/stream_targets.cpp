// SPDX-License-Identifier: BSD-3-Clause
#include "tests/fuzz/stream_targets.h"

#include <algorithm>
#include <memory>
#include <string>

#include "proto/link/binary_frame.h"
#include "proto/link/bounds.h"
#include "proto/secure/io/openssl_library.h"
#include "proto/secure/secret.h"
#include "proto/secure/token.h"
#include "rendezvous/store/store_streams.h"
#include "tests/fuzz/targets.h"

namespace cpprun::fuzz {

namespace {

constexpr std::size_t small_window = 64;
constexpr int answers_max = 1024;

// A coordinator that echoes: it reads what it receives, answers as much as fits, and closes streams
// that have ended.
class Echo {
 public:
  // False: the link was closed.
  bool hear(std::string_view frame) {
    link::StreamFrameReader records(frame);
    const auto round = records.round();
    if (!round || *round != streams_.round()) return round.has_value();
    const auto heard = streams_.hear(records);
    if (!heard) promise(!heard.error().reason.empty(), "a refusal without a reason");
    if (heard) answer();
    if (const auto broken = streams_.check()) promise(false, broken->c_str());
    return heard.has_value();
  }

  void begin_link() { streams_.begin_link(); }

 private:
  void answer() {
    while (const auto change = streams_.next_change()) {
      const StreamId stream = change->stream;
      const std::string bytes(streams_.heard(stream));
      promise(bytes.size() <= small_window, "holds more than a window");
      streams_.say(stream, std::string_view(bytes).substr(0, streams_.room(stream)));
      streams_.take(stream, bytes.size());
      if (change->is_over) streams_.close(stream);
    }
    for (int said = 0; streams_.has_frame(); ++said) {
      promise(said < answers_max, "never stops answering");
      const std::string frame = streams_.next_frame();
      promise(frame.size() <= bounds::link_frame_bytes_max + 4, "a frame over its bound");
      const auto inside = link::first_frame(frame);
      promise(inside && *inside && link::carries_streams(**inside), "cannot read its own frame");
    }
  }

  StoreStreams streams_{RoundNumber{1}, small_window};
};

std::shared_ptr<Key> plain_key() {
  return std::make_shared<Key>();
}

}  // namespace

void stream_frames(std::string_view bytes) {
  Echo echo;
  while (true) {
    const auto frame = link::first_frame(bytes);
    if (!frame || !*frame) return;
    bytes.remove_prefix((*frame)->size() + 4);
    // A frame without streams represents a link that broke.
    if (!link::carries_streams(**frame)) {
      echo.begin_link();
    } else if (!echo.hear(**frame)) {
      return;
    }
  }
}

void secret_file(std::string_view bytes) {
  const auto secrets = parse_secrets(bytes, plain_key);
  if (!secrets) {
    promise(!secrets.error().reason.empty(), "a refusal without a reason");
    return;
  }
  promise(secrets->size() <= secrets_max, "more secrets than there may be");
  std::string again;
  for (const Secret& secret : *secrets) {
    promise(is_secret_id(secret.id), "a secret with an invalid id");
    again += secret_line(secret) + "\n";
  }
  const auto echo = parse_secrets(again, plain_key);
  promise(secrets->empty() || (echo && echo->size() == secrets->size()),
          "cannot read what it would write");
}

// A token that was not made with the secret that it is checked with.
void token_text(std::string_view bytes) {
  static_cast<void>(secret_id_of_token(bytes));
  static const auto openssl = open_openssl();
  if (!openssl) return;
  const Secrets secrets = {{.id = "red", .key = plain_key()}};
  const WallTime now{std::chrono::seconds(1'000'000'000)};
  // The key is all zeros, so that a corpus may contain valid tokens.
  const auto terms = check_token(*openssl, secrets, bytes, now, {.purpose = TokenPurpose::read});
  if (!terms) {
    promise(!terms.error().reason.empty(), "a refusal without a reason");
    return;
  }
  promise(make_token(*openssl, secrets.front(), *terms) == bytes, "a second text of one token");
}

}  // namespace cpprun::fuzz
