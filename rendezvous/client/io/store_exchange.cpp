// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/client/io/store_exchange.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <optional>

#include "proto/bounds.h"
#include "proto/c10d/encoder.h"
#include "proto/text.h"
#include "rendezvous/io/socket_address.h"

namespace cpprun {

using Clock = std::chrono::steady_clock;

void StoreExchange::ask(const c10d::Request& request, std::string what, Duration timeout,
                        Answered answered) {
  if (!is_of_this_process()) return answered(failure(broken_));
  Asked asked;
  (void)c10d::encode(request, c10d::Dialect::d, asked.bytes);  // the client asks what D has
  asked.expected = c10d::expected_of(request);
  asked.what = std::move(what);
  asked.timeout = timeout;
  asked.answered = std::move(answered);
  asked.is_wait = asked.expected.kind == c10d::ReplyKind::waited;
  held_.push_back(std::move(asked));
  release_held();
}

bool StoreExchange::is_of_this_process() {
  if (broken_.empty() && ::getpid() != owner_) {
    fail("process " + std::to_string(owner_) +
         " opened this connection before a fork: open another one in the forked process");
  }
  return broken_.empty();
}

int StoreExchange::next_wait_ms() const {
  std::optional<TimePoint> next;
  for (const Asked& asked : under_way_) {
    next = next ? std::min(*next, asked.deadline) : asked.deadline;
  }
  if (!next) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

void StoreExchange::serve() {
  if (!is_of_this_process()) return;
  write();
  read();
  expire();
  write();
}

void StoreExchange::write() {
  if (!is_of_this_process()) return;
  while (broken_.empty() && !outbox_.empty()) {
    const std::string_view bytes = outbox_.view();
    const ssize_t count = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0) {
      if (errno == EAGAIN || errno == EINTR) return;
      return fail("cannot write to the store: " + errno_text(errno));
    }
    outbox_.drop_front(static_cast<std::size_t>(count));
  }
}

// Sends what may be sent: everything up to and including the next wait.
void StoreExchange::release_held() {
  while (!held_.empty() && (under_way_.empty() || !under_way_.back().is_wait)) {
    Asked asked = std::move(held_.front());
    held_.pop_front();
    outbox_.append(asked.bytes);
    asked.deadline = Clock::now() + asked.timeout;
    asked.bytes.clear();
    if (asked.expected.kind == c10d::ReplyKind::none) {
      asked.answered(c10d::Reply{});
    } else {
      under_way_.push_back(std::move(asked));
    }
  }
}

void StoreExchange::read() {
  while (broken_.empty()) {
    char* const at = inbox_.tail(bounds::store_read_bytes);
    const ssize_t count = ::recv(socket_.get(), at, bounds::store_read_bytes, 0);
    if (count == 0) return fail("the store closed the connection");
    if (count < 0) {
      if (errno == EAGAIN || errno == EINTR) break;
      return fail("cannot read from the store: " + errno_text(errno));
    }
    inbox_.grow_by(static_cast<std::size_t>(count));
    take_replies();
    if (static_cast<std::size_t>(count) < bounds::store_read_bytes) break;
  }
  if (inbox_.empty()) inbox_.clear();
}

void StoreExchange::take_replies() {
  while (broken_.empty() && !inbox_.empty() && inbox_.size() >= needed_) {
    if (under_way_.empty()) return fail("the store sent something that was not asked for");
    const c10d::DecodedReply decoded = decoder_.decode(inbox_.view(), under_way_.front().expected);
    if (const auto* more = std::get_if<c10d::NeedMoreReply>(&decoded)) {
      needed_ = more->size;
      return;
    }
    if (const auto* malformed = std::get_if<c10d::MalformedReply>(&decoded)) {
      return fail("the store answered with " + malformed->reason);
    }
    needed_ = 0;
    const auto& complete = std::get<c10d::CompleteReply>(decoded);
    Asked asked = std::move(under_way_.front());
    under_way_.pop_front();
    finish(asked, complete.reply);
    inbox_.drop_front(complete.size);
    release_held();
  }
}

void StoreExchange::finish(Asked& asked, const c10d::Reply& reply) {
  const auto* waited = std::get_if<c10d::Waited>(&reply);
  if (waited == nullptr) return asked.answered(reply);
  if (waited->cancelled) return asked.answered(failure(asked.what + " timed out"));
  // The answer and our cancelling crossed: the answer to the latter still comes.
  if (asked.is_cancelled) {
    Asked leftover;
    leftover.expected = asked.expected;
    leftover.deadline = Clock::now() + options_.timeout;
    leftover.what = "the cancelling of a wait";
    leftover.answered = [](const Result<c10d::Reply>&) {};
    leftover.is_wait = true;
    under_way_.push_front(std::move(leftover));
  }
  asked.answered(reply);
}

void StoreExchange::expire() {
  const TimePoint now = Clock::now();
  if (under_way_.empty() || !broken_.empty()) return;
  // A wait is the last that is under way, so it can be cancelled without disturbing others.
  Asked& last = under_way_.back();
  if (last.is_wait && !last.is_cancelled && last.deadline <= now) {
    std::string cancel;
    (void)c10d::encode(c10d::CancelWait{}, c10d::Dialect::d, cancel);  // D has it
    outbox_.append(cancel);
    last.is_cancelled = true;
    last.deadline = now + options_.timeout;
  }
  // Any other answer that does not come leaves the order of replies in doubt.
  if (under_way_.front().deadline <= now) {
    fail("no answer from the store to " + under_way_.front().what);
  }
}

void StoreExchange::fail(std::string reason) {
  broken_ = std::move(reason);
  std::deque<Asked> lost = std::move(under_way_);
  std::move(held_.begin(), held_.end(), std::back_inserter(lost));
  under_way_.clear();
  held_.clear();
  outbox_.clear();
  inbox_.clear();
  for (Asked& asked : lost) asked.answered(failure(broken_));
}

}  // namespace cpprun
