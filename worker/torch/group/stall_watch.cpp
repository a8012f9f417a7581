// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/stall_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "worker/torch/compat/versions.h"
#include "worker/torch/group/bounds.h"

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

// A failure is reported where the operation is waited for, or by NCCL's own watchdog.
bool has_ended(const StallWatch::Finished& finished) {
  try {
    return finished();
  } catch (const std::exception&) {
    return true;
  }
}

}  // namespace

StallWatch::StallWatch(c10::intrusive_ptr<c10d::Store> store, Options options)
    : store_(std::move(store)),
      options_(std::move(options)),
      looked_at_(neighbours(options_.rank, static_cast<int>(options_.ranks.size()))) {}

StallWatch::~StallWatch() {
  close();
}

void StallWatch::abandon() {
  Waits queued;  // destroyed after the lock is released
  {
    const std::scoped_lock lock(mutex_);
    is_stopping_ = true;
    queued.swap(queued_);
  }
  stopped_.notify_all();
}

void StallWatch::close() {
  abandon();
  if (thread_.joinable()) thread_.join();
  try {
    // Another thread may be in explain().
    const std::unique_lock lock(at_the_store_, bounds::worker_stall_store_wait);
    if (lock.owns_lock()) withdraw();
  } catch (const std::exception&) {
    // The store is lost, and the entry with it.
  }
}

std::uint64_t StallWatch::begin(std::string operation) {
  const std::scoped_lock lock(mutex_);
  return add(waits_, {.operation = std::move(operation), .since = {}});
}

// Operations of one group end in the order in which they were queued. So usually one question is
// asked for each, and one more that finds an unfinished operation.
void StallWatch::watch(std::string operation, Finished finished) {
  const std::scoped_lock lock(mutex_);
  while (!queued_.empty() && has_ended(queued_.begin()->second.finished)) {
    queued_.erase(queued_.begin());
  }
  // The oldest ones show a stall; the newest cannot end before them.
  if (queued_.size() >= bounds::worker_stall_queue_max) return;
  add(queued_, {.operation = std::move(operation), .since = {}, .finished = std::move(finished)});
}

std::uint64_t StallWatch::add(Waits& waits, Wait wait) {
  if (is_stopping_) return 0;
  wait.since = std::chrono::steady_clock::now();
  wait.steps = options_.steps();
  waits.emplace_hint(waits.end(), ++last_number_, std::move(wait));
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
    post(reason, options_.steps(), operation);
    posted_ += 1;
    has_given_up_ = true;
    std::vector<std::string> posts = seen();
    for (std::size_t at = 0; at < posts.size(); ++at) {
      if (looked_at_[at] != options_.rank && !counts(posts[at])) posts[at].clear();
    }
    found = difference(posts);
    // A rank writes its entry at its second check at the latest.
    const bool all_have_written = options_.timeout >= 4 * options_.interval;
    if (reason == time_was_up && all_have_written) found = with_absent(std::move(found), posts);
  } catch (const std::exception&) {
    // The store is lost too; the original error says more.
  }
  if (client_ == store_) client_.reset();
  return found.empty() ? found : "; " + found;
}

// --- the thread ----------------------------------------------------------------------------------

void StallWatch::run() {
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, options_.interval, [this] { return is_stopping_; })) {
    lock.unlock();
    const auto [number, wait] = oldest();
    try {
      const std::scoped_lock store_lock(at_the_store_);
      const bool is_stalled =
          number != 0 && std::chrono::steady_clock::now() - wait.since >= options_.interval;
      is_stalled ? look(number, wait) : withdraw();
    } catch (const std::exception&) {
      return;  // The store is lost, and the job with it.
    }
    lock.lock();
  }
}

// The oldest operation that has not ended. Its number is zero if there is none.
std::pair<std::uint64_t, StallWatch::Wait> StallWatch::oldest() {
  while (true) {
    std::pair<std::uint64_t, Wait> first;
    {
      const std::scoped_lock lock(mutex_);
      if (!waits_.empty()) first = *waits_.begin();
      if (!queued_.empty() && (waits_.empty() || queued_.begin()->first < first.first)) {
        first = *queued_.begin();
      }
    }
    // Not under the lock: CUDA's answer may take as long as another thread's call of CUDA.
    if (!first.second.finished || !has_ended(first.second.finished)) return first;
    const std::scoped_lock lock(mutex_);
    queued_.erase(first.first);
  }
}

// An operation on the GPU may be queued behind a long computation, on one rank and not on another.
bool StallWatch::may_report(const Wait& wait, std::chrono::steady_clock::duration waited) const {
  return !wait.finished ||
         waited >= std::min(bounds::worker_stall_queued_min, options_.timeout / 2);
}

// An entry of another rank counts only if it is unchanged since the previous check some seconds
// ago: a rank that makes progress removes its entry at its next check.
void StallWatch::look(std::uint64_t number, const Wait& wait) {
  if (posted_ != number) {
    posted_ = number;
    return post(std::to_string(number), wait.steps, wait.operation);
  }
  if (told_ == number) return;
  std::vector<std::string> posts = seen();
  const bool holds = posts == previous_;
  previous_ = std::move(posts);
  const auto waited = std::chrono::steady_clock::now() - wait.since;
  if (!holds || !may_report(wait, waited)) return;
  std::string found = difference(previous_);
  const bool is_late = options_.timeout.count() > 0 && waited >= options_.timeout / 2;
  if (is_late) found = with_absent(std::move(found), previous_);
  if (found.empty()) return;
  told_ = number;
  options_.say(fmt::format("rank {} has waited for {} s in {}: {}",
                           options_.ranks.at(static_cast<std::size_t>(options_.rank)),
                           std::chrono::duration_cast<std::chrono::seconds>(waited).count(),
                           wait.operation, found));
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

void StallWatch::post(std::string_view wait, std::int64_t steps, const std::string& operation) {
  has_given_up_ = false;
  previous_.clear();
  client().set(fmt::format("cpprun/stalls/{}/{}", options_.group, options_.rank),
               post_of(wait, steps, operation));
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

// Adds the ranks that have no entry: they hang elsewhere, or compute for longer than this rank.
std::string StallWatch::with_absent(std::string found, const std::vector<std::string>& posts) {
  std::vector<int> absent;
  for (std::size_t at = 0; at < posts.size(); ++at) {
    const int global = options_.ranks.at(static_cast<std::size_t>(looked_at_[at]));
    if (!posts[at].empty() || looked_at_[at] == options_.rank) continue;
    if (!options_.has_watch || options_.has_watch(client(), global)) absent.push_back(global);
  }
  if (absent.empty()) return found;
  return fmt::format("{}{}{} {} in no operation of this group", found, found.empty() ? "" : "; ",
                     name_ranks(absent), absent.size() == 1 ? "is" : "are");
}

}  // namespace cpprun
