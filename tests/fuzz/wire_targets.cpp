// SPDX-License-Identifier: BSD-3-Clause
#include "tests/fuzz/wire_targets.h"

#include <algorithm>
#include <string>
#include <variant>

#include "proto/c10d/codec.h"
#include "proto/http/bounds.h"
#include "proto/http/session.h"
#include "proto/link/bounds.h"
#include "proto/link/codec.h"
#include "proto/sniff.h"
#include "rendezvous/coordinator/coordinator.h"
#include "tests/fuzz/store_fuzz.h"
#include "tests/fuzz/targets.h"

namespace cpprun::fuzz {

namespace {

// Removes the first byte and returns it as a number.
unsigned choice(std::string_view& bytes) {
  if (bytes.empty()) return 0;
  const auto first = static_cast<unsigned char>(bytes.front());
  bytes.remove_prefix(1);
  return first;
}

// --- the coordinator and its three links
// -------------------------------------------------------------

constexpr LinkId first_node{1};
constexpr LinkId second_node{2};
constexpr LinkId unidentified{3};
constexpr const char* honest_job = "honest";
constexpr Duration step = std::chrono::milliseconds(1);

// The bytes that a client receives if it sends these bytes in pieces of that size.
std::string http_conversation(std::string_view bytes, std::size_t piece_size) {
  http::Session session;
  std::string said;
  for (bool closed = false; !closed;) {
    const auto next = session.next();
    if (const auto* asked = std::get_if<http::Session::Asked>(&next)) {
      const http::Request& request = asked->request;
      promise(request.target.starts_with('/'), "a target that is not a path");
      promise(request.target.size() <= bounds::http_target_bytes_max, "a target over its bound");
      promise(session.room() == 0, "takes more before it has answered");
      said += session.answer({.body = request.target});
      closed = session.closes();
    } else if (const auto* refused = std::get_if<http::Session::Refused>(&next)) {
      promise(!refused->reason.empty() && !refused->bytes.empty(), "a refusal without a reason");
      said += refused->bytes;
      closed = true;
    } else {
      promise(session.room() > 0, "is full, and wants more");
      const auto size = std::min({bytes.size(), piece_size, session.room()});
      if (size == 0) return said + "\nopen";
      session.hear(bytes.substr(0, size));
      bytes.remove_prefix(size);
    }
  }
  return said;
}

// The longest prefix that sniff() may wait for.
constexpr std::size_t sniffed_bytes_max = 8;

// A daemon's coordinator with a running job of two nodes, and an unrelated client that has greeted.
class Daemon {
 public:
  Daemon() : coordinator_({.only = {}, .options = options()}) {
    join(first_node, "10.0.0.1", "alpha", 1);
    join(second_node, "10.0.0.2", "beta", 2);
    handle(Coordinator::Opened{{unidentified, "10.0.0.66"}});
    promise(coordinator_.admit(honest_job, "10.0.0.1").has_value(),
            "a member is kept from its store");
    disturbed_ = false;
  }

  // Passes on a message of the unrelated client; false if its link was closed.
  bool hear(const link::Message& message) {
    if (const auto* join = std::get_if<link::Join>(&message)) named_honest_ |= is_honest(*join);
    handle(Coordinator::Said{unidentified, message});
    return !hung_up_;
  }

  void end() {
    if (!hung_up_) handle(Coordinator::Closed{unidentified, "closed by the peer", true});
    for (int step_count = 0; step_count < 64 && coordinator_.next_deadline(); ++step_count) {
      now_ = std::max(now_, *coordinator_.next_deadline());
      // The job's own nodes send heartbeats in time, whatever the unrelated client does.
      handle(Coordinator::Said{first_node, link::Heartbeat{}});
      handle(Coordinator::Said{second_node, link::Heartbeat{}});
      perform(coordinator_.advance(now_));
    }
    // A client that names the job's id may take part in it; other clients must not affect it.
    if (named_honest_) return;
    promise(!disturbed_, "an unrelated client has changed a job");
    promise(coordinator_.admit(honest_job, "10.0.0.2").has_value(),
            "an unrelated client has closed a store");
  }

 private:
  static JobOptions options() {
    return {.lease = std::chrono::seconds(3),
            .status_interval = std::chrono::seconds(5),
            .last_call = std::chrono::seconds(30)};
  }
  static bool is_honest(const link::Join& join) { return join.job == honest_job; }

  void join(LinkId link, const char* peer, const char* host, std::uint32_t agent) {
    handle(Coordinator::Opened{{link, peer}});
    link::Join join{.job = honest_job, .host = host, .pid = 100, .agent = agent};
    join.nodes_min = join.nodes_max = 2;
    handle(Coordinator::Said{link, join});
  }

  void handle(const Coordinator::Event& event) {
    now_ += step;
    perform(coordinator_.handle(now_, event));
  }

  void perform(const Coordinator::Actions& actions) {
    for (const auto& action : actions) {
      if (const auto* open = std::get_if<coordinator::OpenStore>(&action)) {
        // Ports as a system assigns them: another one for each job.
        perform(coordinator_.handle(now_, Coordinator::StoreReady{open->job, ++port_}));
      } else if (const auto* say = std::get_if<coordinator::Say>(&action)) {
        promise(link::encode(say->message).size() <= bounds::link_frame_bytes_max + 4,
                "says more than a frame holds");
        const bool is_heartbeat = std::holds_alternative<link::Heartbeat>(say->message);
        disturbed_ |= say->link != unidentified && !is_heartbeat;
      } else if (const auto* hang_up = std::get_if<coordinator::HangUp>(&action)) {
        disturbed_ |= hang_up->link != unidentified;
        hung_up_ |= hang_up->link == unidentified;
      } else if (const auto* close = std::get_if<coordinator::CloseStore>(&action)) {
        disturbed_ |= close->job == honest_job;
      } else if (const auto* reset = std::get_if<coordinator::ResetStore>(&action)) {
        disturbed_ |= reset->job == honest_job;
      }
    }
  }

  Coordinator coordinator_;
  TimePoint now_{std::chrono::hours(1)};
  int port_ = 40'000;
  bool named_honest_ = false;
  bool disturbed_ = false;
  bool hung_up_ = false;
};

}  // namespace

void store_requests(std::string_view bytes) {
  static constexpr c10d::Dialect known[] = {c10d::Dialect::a, c10d::Dialect::b, c10d::Dialect::d};
  for (const c10d::Dialect dialect : known) {
    const std::string whole = session(bytes, bytes.size() + 1, dialect);
    promise(session(bytes, 1, dialect) == whole, "another answer to single bytes");
    promise(session(bytes, 7, dialect) == whole, "another answer when cut");
  }
  // Opcode 8 without a known dialect depends on the bytes that arrive with it.
  session(bytes, bytes.size() + 1, c10d::Dialect::undecided);
  session(bytes, 1, c10d::Dialect::undecided);
}

void store_replies(std::string_view bytes) {
  const unsigned chosen = choice(bytes);
  const c10d::Expected expected{.kind = static_cast<c10d::ReplyKind>(chosen % 9),
                                .count = chosen / 9};
  if (expected.kind == c10d::ReplyKind::none) return;
  c10d::ReplyDecoder decoder;
  for (std::size_t size = 0; size <= bytes.size();) {
    const auto decoded = decoder.decode(bytes.substr(0, size), expected);
    if (std::holds_alternative<c10d::MalformedReply>(decoded)) return;
    if (const auto* complete = std::get_if<c10d::CompleteReply>(&decoded)) {
      promise(complete->size <= size, "consumed more than there is");
      return;
    }
    const auto& more = std::get<c10d::NeedMoreReply>(decoded);
    promise(more.size > size, "asks for bytes that it has");
    size = more.size;
  }
}

void link_frames(std::string_view bytes) {
  while (true) {
    const auto decoded = link::decode(bytes);
    if (!decoded) {
      promise(!decoded.error().reason.empty(), "a refusal without a reason");
      return;
    }
    if (!*decoded) return;
    const link::Decoded& frame = **decoded;
    promise(frame.bytes_consumed > 4 && frame.bytes_consumed <= bytes.size(),
            "consumed more than there is");
    // Encoding it again keeps the meaning, once it is within the encoder's own bounds.
    const std::string again = link::encode(frame.message);
    promise(again.size() <= bounds::link_frame_bytes_max + 4, "a frame over its bound");
    const auto echo = link::decode(again);
    promise(echo && *echo, "cannot read its own frame");
    promise(link::encode((*echo)->message) == again, "a frame that changes when encoded again");
    bytes.remove_prefix(frame.bytes_consumed);
  }
}

void coordinator_link(std::string_view bytes) {
  Daemon daemon;
  while (true) {
    const auto decoded = link::decode(bytes);
    if (!decoded || !*decoded) break;
    if (!daemon.hear((*decoded)->message)) break;
    bytes.remove_prefix((*decoded)->bytes_consumed);
  }
  daemon.end();
}

void sniffed_bytes(std::string_view bytes) {
  Protocol earlier = Protocol::undecided;
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    const Protocol now = sniff(bytes.substr(0, size));
    promise(earlier == Protocol::undecided || now == earlier, "decided, and decided again");
    earlier = now;
  }
  promise(bytes.size() < sniffed_bytes_max || earlier != Protocol::undecided, "undecided for ever");
  promise(!describe(bytes).empty() || bytes.empty(), "has no description");
}

// The replies are the same however the bytes are cut, and nothing is held beyond the bounds.
void http_requests(std::string_view bytes) {
  const std::string whole = http_conversation(bytes, bytes.size() + 1);
  for (const std::size_t piece : {1U, 3U, 64U}) {
    promise(http_conversation(bytes, piece) == whole, "says something else when it is cut");
  }
  static_cast<void>(http::is_own_host(bytes, {"node-7"}));
}

}  // namespace cpprun::fuzz
