// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/stall_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <tuple>
#include <utility>

#include "proto/bounds.h"
#include "worker/torch/compat/versions.h"

namespace cpprun {
namespace {

// In a large group each rank checks only its neighbours: where ranks diverge, some neighbours do.
std::vector<int> neighbours(int rank, int size) {
  const int count = std::min(size, bounds::worker_stall_ranks_max);
  std::vector<int> ranks;
  for (int at = 0; at < count; ++at) ranks.push_back((rank + at) % size);
  std::ranges::sort(ranks);
  return ranks;
}

// `7 12 all_reduce(…)`: number of the wait, steps begun, operation. For a wait that was given up,
// the reason replaces the number.
constexpr std::string_view time_was_up = "time";
constexpr std::string_view peer_was_gone = "peer";

std::string post_of(std::string_view wait, std::int64_t steps, const std::string& operation) {
  return fmt::format("{} {} {}", wait, steps, operation);
}

bool gave_up_in_time(const std::string& post) {
  return post.starts_with(time_was_up);
}

Call call_from(const std::string& post) {
  const std::size_t first = post.find(' ');
  const std::size_t second = post.find(' ', first + 1);
  return {.text = post.substr(second + 1), .steps = std::stoll(post.substr(first + 1))};
}

}  // namespace

StallWatch::StallWatch(c10::intrusive_ptr<c10d::Store> store, Options options)
    : store_(std::move(store)),
      options_(std::move(options)),
      looked_at_(neighbours(options_.rank, static_cast<int>(options_.ranks.size()))) {}

StallWatch::~StallWatch() {
  {
    const std::scoped_lock lock(mutex_);
    is_stopping_ = true;
  }
  stopped_.notify_all();
  if (thread_.joinable()) thread_.join();
  try {
    withdraw();
  } catch (const std::exception&) {
    // The store is lost, and the entry with it.
  }
}

std::uint64_t StallWatch::begin(std::string operation) {
  const std::scoped_lock lock(mutex_);
  waits_.emplace_hint(waits_.end(), ++last_number_,
                      Wait{std::move(operation), std::chrono::steady_clock::now()});
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  return last_number_;
}

void StallWatch::end(std::uint64_t number) {
  const std::scoped_lock lock(mutex_);
  waits_.erase(number);
}

std::string StallWatch::explain(const std::string& operation) {
  return give_up(time_was_up, operation, [](const std::string&) { return true; });
}

// After a crash of one peer, the others are found in different calls of a correct program. So only
// entries of ranks that timed out show calls that do not match.
std::string StallWatch::explain_lost_peer(const std::string& operation) {
  return give_up(peer_was_gone, operation, gave_up_in_time);
}

std::string StallWatch::give_up(std::string_view reason, const std::string& operation,
                                bool (*counts)(const std::string& post)) {
  // The thread may be retrying for minutes at a store that is closing.
  const std::unique_lock lock(at_the_store_, bounds::worker_stall_store_wait);
  if (!lock.owns_lock()) return {};
  std::string found;
  try {
    // Open no new connection now: the round may be over, and this rank may be exiting.
    if (!client_) client_ = store_;
    post(reason, operation);
    posted_ += 1;
    has_given_up_ = true;
    std::vector<std::string> posts = seen();
    for (std::size_t at = 0; at < posts.size(); ++at) {
      if (looked_at_[at] != options_.rank && !counts(posts[at])) posts[at].clear();
    }
    found = difference(posts);
  } catch (const std::exception&) {
    // The store is lost too; the original error says more.
  }
  if (client_ == store_) client_.reset();
  return found.empty() ? found : "; " + found;
}

// --- the thread ----------------------------------------------------------------------------------

void StallWatch::run() {
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, options_.timeout, [this] { return is_stopping_; })) {
    std::uint64_t number = 0;
    Wait oldest;
    if (!waits_.empty()) std::tie(number, oldest) = *waits_.begin();
    lock.unlock();
    try {
      const std::scoped_lock store_lock(at_the_store_);
      const bool is_stalled =
          number != 0 && std::chrono::steady_clock::now() - oldest.since >= options_.timeout;
      is_stalled ? look(number, oldest) : withdraw();
    } catch (const std::exception&) {
      return;  // The store is lost, and the job with it.
    }
    lock.lock();
  }
}

// An entry of another rank counts only if it is unchanged since the previous check some seconds
// ago: a rank that makes progress removes its entry at its next check.
void StallWatch::look(std::uint64_t number, const Wait& wait) {
  if (posted_ != number) {
    posted_ = number;
    return post(std::to_string(number), wait.operation);
  }
  if (told_ == number) return;
  std::vector<std::string> posts = seen();
  const bool holds = posts == previous_;
  previous_ = std::move(posts);
  const std::string found = holds ? difference(previous_) : std::string();
  if (found.empty()) return;
  told_ = number;
  const auto waited = std::chrono::duration_cast<std::chrono::seconds>(
      std::chrono::steady_clock::now() - wait.since);
  options_.say(fmt::format("rank {} has waited for {} s in {}: {}",
                           options_.ranks.at(static_cast<std::size_t>(options_.rank)),
                           waited.count(), wait.operation, found));
}

// --- at the store --------------------------------------------------------------------------------

c10d::Store& StallWatch::client() {
  if (!client_) {
    // Another thread may block at the store for long.
    client_ = compat::own_client(store_);
    client_->setTimeout(bounds::worker_stall_store_wait);
  }
  return *client_;
}

void StallWatch::post(std::string_view wait, const std::string& operation) {
  has_given_up_ = false;
  previous_.clear();
  client().set(fmt::format("cpprun/stalls/{}/{}", options_.group, options_.rank),
               post_of(wait, options_.steps(), operation));
}

void StallWatch::withdraw() {
  if (posted_ == 0 || has_given_up_) return;
  posted_ = 0;
  client().deleteKey(fmt::format("cpprun/stalls/{}/{}", options_.group, options_.rank));
}

// The entry of each checked rank, or an empty text.
std::vector<std::string> StallWatch::seen() {
  std::vector<std::string> posts;
  for (const int rank : looked_at_) {
    const std::string key = fmt::format("cpprun/stalls/{}/{}", options_.group, rank);
    const int global = options_.ranks.at(static_cast<std::size_t>(rank));
    // A rank that gave up a wait and then left: its wait says more than its leaving.
    if (client().check({key})) {
      posts.push_back(client().get_to_str(key));
    } else if (const auto steps = options_.left_after(client(), global)) {
      posts.push_back(post_of("0", *steps, has_left));
    } else {
      posts.emplace_back();
    }
  }
  return posts;
}

std::string StallWatch::difference(const std::vector<std::string>& posts) const {
  std::vector<std::optional<Call>> calls;
  std::vector<int> ranks;
  for (std::size_t at = 0; at < posts.size(); ++at) {
    calls.push_back(posts[at].empty() ? std::nullopt : std::optional(call_from(posts[at])));
    ranks.push_back(options_.ranks.at(static_cast<std::size_t>(looked_at_[at])));
  }
  return parted(calls, ranks);
}

}  // namespace cpprun
