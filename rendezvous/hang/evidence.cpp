// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/hang/evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <compare>
#include <iterator>
#include <limits>
#include <tuple>

#include "proto/text.h"

namespace cpprun::hang {

namespace {

constexpr std::size_t ranges_bytes_max = 60;
// Fewer equal ranges are easier to read one by one.
constexpr int ranges_of_pattern_least = 5;
// What is received may claim any number.
constexpr std::int64_t pattern_ranges_max = 1 << 16;
constexpr std::size_t clusters_with_whole_stacks_max = 8;
constexpr std::size_t frames_of_many_max = 6;
// Together with the reasons, less than a frame of the link.
constexpr std::size_t clusters_bytes_max = 18 * 1024;
constexpr std::size_t positions_bytes_max = 10 * 1024;

std::strong_ordering compare(const std::vector<Frame>& left, const std::vector<Frame>& right) {
  return std::lexicographical_compare_three_way(
      left.begin(), left.end(), right.begin(), right.end(), [](const Frame& a, const Frame& b) {
        return std::tie(a.line, a.function, a.file) <=> std::tie(b.line, b.function, b.file);
      });
}

// What makes two entries the same, as an order.
std::strong_ordering compare(const Cluster& left, const Cluster& right) {
  const auto scalars = std::tuple(left.activity, left.is_native, left.stack.size()) <=>
                       std::tuple(right.activity, right.is_native, right.stack.size());
  return scalars != 0 ? scalars : compare(left.stack, right.stack);
}
std::strong_ordering compare(const GroupPosition& left, const GroupPosition& right) {
  const auto key = [](const Position& at) {
    return std::tie(at.group, at.sequence, at.queued, at.is_pending, at.operation, at.shape);
  };
  const auto order = key(left.at) <=> key(right.at);
  return order != 0 ? order : left.at.members <=> right.at.members;
}
std::strong_ordering compare(const Unread& left, const Unread& right) {
  return left.reason <=> right.reason;
}

void join(Cluster& to, const Cluster& from) {
  if (from.ranks.first() < to.ranks.first()) to.native_stack = from.native_stack;
  to.ranks.add(from.ranks);
  if (to.detail != from.detail) to.detail.clear();
}
void join(GroupPosition& to, const GroupPosition& from) {
  to.ranks.add(from.ranks);
}
void join(Unread& to, const Unread& from) {
  to.ranks.add(from.ranks);
}

constexpr auto before = [](const auto& left, const auto& right) {
  return compare(left, right) < 0;
};

// Joins equal neighbours of a sorted list.
template <class Entry>
void join_equal(std::vector<Entry>& entries) {
  std::size_t kept = 0;
  for (std::size_t at = 1; at < entries.size(); ++at) {
    if (compare(entries[kept], entries[at]) == 0) {
      join(entries[kept], entries[at]);
    } else if (++kept != at) {
      entries[kept] = std::move(entries[at]);
    }
  }
  if (!entries.empty()) entries.resize(kept + 1);
}

template <class Entry>
void unite(std::vector<Entry>& entries) {
  // Stable, so that the ranks of equal entries ascend where the nodes do.
  std::stable_sort(entries.begin(), entries.end(), before);
  join_equal(entries);
}

template <class Entry>
void append(std::vector<Entry>& to, const std::vector<Entry>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Functions of libraries, by how their names start.
constexpr std::array native_libraries = {
    std::string_view("__"),       std::string_view("std::"),  std::string_view("pthread_"),
    std::string_view("c10d::"),   std::string_view("c10::"),  std::string_view("at::"),
    std::string_view("torch::"),  std::string_view("gloo::"), std::string_view("nccl"),
    std::string_view("syscall"),  std::string_view("futex"),  std::string_view("clock_nanosleep"),
    std::string_view("cpprun::"),
};
// The files of others, which a C++ worker names where there is no source file.
constexpr std::array native_library_files = {
    std::string_view("libc.so"),  std::string_view("libpthread"), std::string_view("libstdc++"),
    std::string_view("libtorch"), std::string_view("libc10"),     std::string_view("libnccl"),
    std::string_view("libcuda"),  std::string_view("libgomp"),
};

// 0: the user's own code; 1: an installed package; 2: PyTorch, Python or a library below them.
int distance_of(const Frame& frame) {
  const std::string_view file = frame.file;
  if (file.starts_with('<')) return 2;
  if (file.ends_with(".py")) {
    if (contains(file, "-packages/torch/")) return 2;
    if (contains(file, "-packages/")) return 1;
    return contains(file, "lib/python3") ? 2 : 0;
  }
  const auto begins_with_any = [](std::string_view text, const auto& starts) {
    return std::ranges::any_of(starts,
                               [&](std::string_view start) { return text.starts_with(start); });
  };
  const bool is_library = begins_with_any(frame.function, native_libraries) ||
                          begins_with_any(file.substr(file.rfind('/') + 1), native_library_files);
  if (is_library) return 2;
  return frame.function == "?" ? 1 : 0;
}

// "train_step (train.py:88)".
std::string text_of(const Frame& frame) {
  const std::string place = place_of({frame});
  const std::size_t space = place.rfind(' ');
  if (space == std::string::npos) return place;
  return fmt::format("{} ({})", place.substr(0, space), place.substr(space + 1));
}

std::string with(std::string_view before_it, std::string_view text) {
  return text.empty() ? std::string() : fmt::format("{}{}", before_it, text);
}

}  // namespace

// The ranges of a set in order.
class RankSet::Cursor {
 public:
  explicit Cursor(const RankSet& set) : run_(set.runs_.begin()), end_(set.runs_.end()) {}
  bool is_at_end() const { return run_ == end_; }
  Range range() const { return run_->range(at_); }
  void next() {
    if (++at_ == run_->count) ++run_, at_ = 0;
  }
  // To the first range that ends at or behind this rank.
  void skip_to(int rank) {
    while (run_ != end_ && run_->end() <= rank) ++run_, at_ = 0;
    if (run_ == end_ || run_->step == 0) return;
    const std::int64_t before = std::int64_t{rank} - run_->first - run_->size;
    if (before >= 0) at_ = std::max(at_, before / run_->step + 1);
  }

 private:
  std::vector<Run>::const_iterator run_;
  std::vector<Run>::const_iterator end_;
  std::int64_t at_ = 0;
};

void RankSet::append(Range range) {
  const std::int64_t size = std::int64_t{range.last} - range.first + 1;
  const Run alone{range.first, size, 0, 1};
  if (runs_.empty()) {
    runs_.push_back(alone);
    return;
  }
  Run& run = runs_.back();
  const Range last = run.range(run.count - 1);
  if (range.first <= run.end()) {
    if (range.last <= last.last) return;
    // That range becomes longer, so it may no longer belong to its run.
    --run.count;
    if (run.count == 1) run.step = 0;
    if (run.count == 0) runs_.pop_back();
    append({last.first, range.last});
    return;
  }
  const int step = range.first - last.first;
  if (size == run.size && (run.count == 1 || run.step == step)) {
    run.step = step;
    ++run.count;
  } else {
    runs_.push_back(alone);
  }
}

void RankSet::append_run(const Run& run) {
  for (int at = 0; at < run.count; ++at) {
    append(run.range(at));
    Run& last = runs_.back();
    if (last.size != run.size || last.step != run.step) continue;
    last.count += run.count - 1 - at;  // the others continue it
    return;
  }
}

RankSet RankSet::all(int world_size) {
  RankSet set;
  if (world_size > 0) set.append({0, world_size - 1});
  return set;
}

void RankSet::add(Rank rank) {
  add(RankSet(rank));
}

void RankSet::add(const RankSet& other) {
  if (other.empty()) return;
  if (empty()) {
    runs_ = other.runs_;
  } else if (last() < other.first()) {
    for (const Run& run : other.runs_) append_run(run);
  } else {
    RankSet both;
    Cursor left(*this);
    Cursor right(other);
    while (!left.is_at_end() || !right.is_at_end()) {
      const bool is_left =
          right.is_at_end() || (!left.is_at_end() && left.range().first <= right.range().first);
      Cursor& next = is_left ? left : right;
      both.append(next.range());
      next.next();
    }
    runs_ = std::move(both.runs_);
  }
}

RankSet RankSet::common_with(const RankSet& other) const {
  RankSet both;
  Cursor left(*this);
  Cursor right(other);
  while (!left.is_at_end() && !right.is_at_end()) {
    const Range one = left.range();
    const Range two = right.range();
    const Range common{std::max(one.first, two.first), std::min(one.last, two.last)};
    if (common.first <= common.last) both.append(common);
    // The range that ends first meets no further range of the other set.
    if (one.last < two.last) {
      left.next(), left.skip_to(two.first);
    } else {
      right.next(), right.skip_to(one.first);
    }
  }
  return both;
}

void RankSet::remove(const RankSet& other) {
  RankSet left;
  Cursor hole(other);
  each_range([&](int first, int last) {
    hole.skip_to(first);
    for (; !hole.is_at_end() && hole.range().first <= last; hole.next()) {
      if (hole.range().first > first) left.append({first, hole.range().first - 1});
      if (hole.range().last >= last) return;
      first = hole.range().last + 1;
    }
    left.append({first, last});
  });
  runs_ = std::move(left.runs_);
}

bool RankSet::has(Rank rank) const {
  const auto behind = std::upper_bound(runs_.begin(), runs_.end(), rank.value,
                                       [](int value, const Run& run) { return value < run.first; });
  if (behind == runs_.begin()) return false;
  const Run& run = *std::prev(behind);
  if (rank.value >= run.end()) return false;
  return run.step == 0 || (rank.value - run.first) % run.step < run.size;
}

std::size_t RankSet::count() const {
  std::size_t count = 0;
  for (const Run& run : runs_) {
    count += static_cast<std::size_t>(run.size) * static_cast<std::size_t>(run.count);
  }
  return count;
}

std::string RankSet::text_of(const Run& run) {
  const auto range_text = [](int first, std::int64_t last) {
    return first == last ? fmt::to_string(first) : fmt::format("{}-{}", first, last);
  };
  if (run.count >= ranges_of_pattern_least) {
    return fmt::format("{}-{}:{}/{}", run.first, run.end() - 1, run.size, run.step);
  }
  std::string text;
  for (int at = 0; at < run.count; ++at) {
    const Range range = run.range(at);
    text += with(at == 0 ? "" : ",", range_text(range.first, range.last));
  }
  return text;
}

std::size_t RankSet::text_bytes_max() const {
  std::size_t size = 0;
  for (const Run& run : runs_) {
    size += run.count >= ranges_of_pattern_least ? 44 : 22 * static_cast<std::size_t>(run.count);
  }
  return size;
}

std::string RankSet::to_text() const {
  std::string text;
  std::size_t shown = 0;
  for (const Run& run : runs_) {
    const std::string next = text_of(run);
    if (text.size() + 1 + next.size() > ranges_bytes_max) break;
    text += with(text.empty() ? "" : ",", next);
    shown += static_cast<std::size_t>(run.size) * static_cast<std::size_t>(run.count);
  }
  if (shown < count()) text += fmt::format(" and {} more", count() - shown);
  return text;
}

std::string RankSet::ranges_text() const {
  std::string text;
  for (const Run& run : runs_) text += with(text.empty() ? "" : ",", text_of(run));
  return text;
}

Result<RankSet> RankSet::parse(std::string_view text) {
  RankSet set;
  if (text.empty()) return set;
  for (const std::string_view part : split(text, ',')) {
    const auto invalid = [&] {
      return failure(fmt::format("invalid range of ranks \"{}\"", plain_line(part, 40)));
    };
    const std::size_t colon = part.find(':');
    const std::string_view whole = part.substr(0, colon);
    const std::size_t dash = whole.find('-');
    const auto first = exact_number<int>(whole.substr(0, dash));
    const auto last =
        dash == std::string_view::npos ? first : exact_number<int>(whole.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first) return invalid();
    if (!set.empty() && *first <= set.runs_.back().end()) {
      return failure(fmt::format("ranges of ranks do not ascend at \"{}\"", plain_line(part, 40)));
    }
    if (colon == std::string_view::npos) {
      set.append({*first, *last});
      continue;
    }
    const std::string_view pattern = part.substr(colon + 1);
    const std::size_t slash = pattern.find('/');
    if (slash == std::string_view::npos) return invalid();
    const auto size = exact_number<int>(pattern.substr(0, slash));
    const auto step = exact_number<int>(pattern.substr(slash + 1));
    if (!size || !step || *size < 1 || *step <= *size) return invalid();
    const std::int64_t beyond_first = std::int64_t{*last} - *first + 1 - *size;
    if (beyond_first < *step || beyond_first % *step != 0) return invalid();
    const std::int64_t count = beyond_first / *step + 1;
    if (count > pattern_ranges_max) return invalid();
    set.append_run({*first, *size, *step, static_cast<int>(count)});
  }
  return set;
}

std::string_view name_of(Activity activity) {
  switch (activity) {
    case Activity::stopped:
      return "stopped";
    case Activity::disk:
      return "disk";
    case Activity::gil:
      return "gil";
    case Activity::busy:
      return "busy";
    case Activity::child:
      return "child";
    case Activity::lock:
      return "lock";
    case Activity::reading:
      return "reading";
    case Activity::sleeping:
      return "sleeping";
    case Activity::blocked:
      return "blocked";
    case Activity::collective:
      return "collective";
    case Activity::exited:
      return "exited";
    case Activity::unknown:
      return "unknown";
  }
  return "";
}

std::optional<Peer> peer_of(std::string_view operation) {
  const bool receives = operation.starts_with("recv ");
  if (!receives && !operation.starts_with("send ")) return std::nullopt;
  operation.remove_prefix(5);
  const std::size_t arrow = operation.find(receives ? "<-" : "->");
  if (arrow == std::string_view::npos) return std::nullopt;
  const auto self = exact_number<int>(operation.substr(0, arrow));
  const auto other = exact_number<int>(operation.substr(arrow + 2));
  if (!self || !other || *self < 0 || *other < 0) return std::nullopt;
  return Peer{.self = Rank{*self}, .other = Rank{*other}, .receives = receives};
}

Evidence cluster(const std::vector<WorkerEvidence>& workers) {
  Evidence evidence;
  for (const auto& worker : workers) {
    evidence.clusters.push_back({.ranks = RankSet(worker.rank),
                                 .activity = worker.activity,
                                 .detail = worker.detail,
                                 .stack = worker.stack,
                                 .is_native = worker.is_native,
                                 .native_stack = worker.native_stack});
    for (const auto& position : worker.positions) {
      evidence.positions.push_back({.at = position, .ranks = RankSet(worker.rank)});
    }
    if (!worker.unread.empty()) {
      evidence.unread.push_back({.reason = worker.unread, .ranks = RankSet(worker.rank)});
    }
  }
  return merged({std::move(evidence)});
}

Evidence merged(const std::vector<Evidence>& nodes) {
  Evidence all;
  // Joined whenever a list has doubled: nodes are mostly alike, and a list that stays short is
  // cheap.
  std::size_t joined = 0;
  const auto size = [&] { return all.clusters.size() + all.positions.size() + all.unread.size(); };
  const auto unite_all = [&] {
    unite(all.clusters);
    unite(all.positions);
    unite(all.unread);
    joined = size();
  };
  for (const auto& node : nodes) {
    append(all.clusters, node.clusters);
    append(all.positions, node.positions);
    append(all.unread, node.unread);
    if (size() > 2 * joined + 64) unite_all();
  }
  unite_all();
  // No two clusters have a rank in common, so this order is complete.
  std::stable_sort(all.clusters.begin(), all.clusters.end(),
                   [](const Cluster& left, const Cluster& right) {
                     const auto count = left.ranks.count() <=> right.ranks.count();
                     return count != 0 ? count < 0 : left.ranks < right.ranks;
                   });
  return all;
}

const Frame* user_frame(const std::vector<Frame>& stack) {
  const Frame* best = nullptr;
  int best_distance = std::numeric_limits<int>::max();
  for (const auto& frame : stack) {
    const int distance = distance_of(frame);
    if (distance >= best_distance) continue;
    best = &frame;
    best_distance = distance;
  }
  return best;
}

std::string place_of(const std::vector<Frame>& stack) {
  const Frame* const frame = user_frame(stack);
  if (frame == nullptr) return {};
  const std::string_view file = frame->file;
  const std::string_view name = file.substr(file.rfind('/') + 1);
  if (name.empty()) return frame->function;
  if (frame->line == 0) return fmt::format("{} {}", frame->function, name);
  return fmt::format("{} {}:{}", frame->function, name, frame->line);
}

std::string call_site(const std::vector<Frame>& stack) {
  const std::string place = place_of(stack);
  const std::size_t space = place.rfind(' ');
  if (space == std::string::npos) return place.empty() ? place : fmt::format(" (in {})", place);
  return fmt::format(" ({}, {})", place.substr(0, space), place.substr(space + 1));
}

bool is_communication(const Frame& frame) {
  const std::string_view file = frame.file;
  if (file.ends_with(".py")) {
    return file.ends_with("torch/distributed/distributed_c10d.py") ||
           file.ends_with("torch/distributed/_functional_collectives.py") ||
           contains(file, "torch/nn/parallel/");
  }
  const std::string_view function = frame.function;
  return function.starts_with("c10d::") || function.starts_with("gloo::") ||
         function.starts_with("nccl");
}

std::string clause_of(const Cluster& cluster, bool is_plural) {
  const Frame* const frame = user_frame(cluster.stack);
  const std::string place = frame == nullptr ? std::string() : text_of(*frame);
  const std::string_view are = is_plural ? "are" : "is";
  const std::string_view wait = is_plural ? "wait" : "waits";
  const std::string in_place = with(" in ", place);
  const std::string from_place = with(", called from ", place);
  switch (cluster.activity) {
    case Activity::stopped:
      return fmt::format("{} stopped{}{}", are, with(" ", cluster.detail),
                         with(" while in ", place));
    case Activity::disk:
      return fmt::format("{} in uninterruptible sleep (D state){}{}", are,
                         with(" ", cluster.detail), cluster.detail.empty() ? in_place : from_place);
    case Activity::gil:
      return fmt::format("{} the GIL in C code{}", is_plural ? "hold" : "holds",
                         with(" called from ", place));
    case Activity::busy:
      return fmt::format("{} busy{}", are, in_place);
    case Activity::child:
      if (cluster.detail.empty()) return fmt::format("{}{} for a child process", wait, in_place);
      return fmt::format("{}{} for child {}", wait, in_place, cluster.detail);
    case Activity::lock:
      return fmt::format("{} for a lock{}", wait, in_place);
    case Activity::reading:
      return fmt::format("{} for input{}", wait, in_place);
    case Activity::sleeping:
      return fmt::format("{}{}", is_plural ? "sleep" : "sleeps", in_place);
    case Activity::blocked:
      return fmt::format("{} blocked{}{}", are, with(" ", cluster.detail),
                         cluster.detail.empty() ? in_place : from_place);
    case Activity::collective: {
      if (frame == nullptr) return fmt::format("{} in a collective", wait);
      const Frame& innermost = cluster.stack.front();
      if (frame == &innermost) return fmt::format("{} for a collective{}", wait, in_place);
      return fmt::format("{} in {}{}", wait, innermost.function, call_site(cluster.stack));
    }
    case Activity::exited:
      return is_plural ? "have exited" : "has exited";
    case Activity::unknown:
      if (place.empty()) return fmt::format("{} in an unknown state", are);
      return fmt::format("{}{} (state unknown)", are, in_place);
  }
  return {};
}

std::string text_of(const Cluster& cluster) {
  const std::size_t count = cluster.ranks.count();
  const bool is_plural = count != 1;
  const std::string who = is_plural ? fmt::format("{} ranks ({})", count, cluster.ranks.to_text())
                                    : fmt::format("rank {}", cluster.ranks.to_text());
  return fmt::format("{}: {}", who, clause_of(cluster, is_plural));
}

namespace {

// Keeps the first `count`, and notes which ranks lose an entry.
template <class Entry>
void cut(std::vector<Entry>& entries, std::size_t count, RankSet& cut_ranks) {
  for (std::size_t at = count; at < entries.size(); ++at) cut_ranks.add(entries[at].ranks);
  if (entries.size() > count) entries.resize(count);
}

// Keeps the innermost frames and the frame of the user's code.
void shorten(std::vector<Frame>& stack, std::size_t count) {
  if (stack.size() <= count) return;
  const Frame best = *user_frame(stack);
  stack.resize(count);
  if (*user_frame(stack) != best) stack.back() = best;
}

// At most what it takes in JSON, where names have no quotes or escapes.
std::size_t size_of(const Cluster& cluster) {
  std::size_t size = 80 + cluster.detail.size() + cluster.ranks.text_bytes_max();
  for (const auto* stack : {&cluster.stack, &cluster.native_stack}) {
    for (const auto& frame : *stack) size += 20 + frame.function.size() + frame.file.size();
  }
  return size;
}
std::size_t size_of(const GroupPosition& position) {
  return 100 + position.at.group.size() + position.at.operation.size() + position.at.shape.size() +
         position.ranks.text_bytes_max() + position.at.members.text_bytes_max();
}

// Removes entries from the back until the rest fits, except the last one, and notes their ranks.
template <class Entry>
void fit(std::vector<Entry>& entries, std::size_t bytes_max, RankSet& cut_ranks) {
  std::size_t size = 0;
  for (const auto& entry : entries) size += size_of(entry);
  while (size > bytes_max && entries.size() > 1) {
    const auto victim = std::prev(entries.end(), 2);
    size -= size_of(*victim);
    cut_ranks.add(victim->ranks);
    entries.erase(victim);
  }
}

}  // namespace

void limit(Evidence& evidence) {
  const auto cut_text = [](std::string& text, std::size_t bytes_max) {
    if (text.size() > bytes_max) text = plain_line(text, bytes_max);
  };
  for (auto& cluster : evidence.clusters) {
    cut_text(cluster.detail, text_bytes_max);
    for (auto* stack : {&cluster.stack, &cluster.native_stack}) {
      shorten(*stack, frames_max);
      for (auto& frame : *stack) {
        cut_text(frame.function, name_bytes_max);
        cut_text(frame.file, text_bytes_max);
      }
    }
  }
  for (auto& [at, ranks] : evidence.positions) {
    cut_text(at.group, name_bytes_max);
    cut_text(at.operation, name_bytes_max);
    cut_text(at.shape, text_bytes_max);
  }
  for (auto& unread : evidence.unread) cut_text(unread.reason, text_bytes_max);
  evidence = merged({std::move(evidence)});

  RankSet without_stack;
  RankSet without_position;
  std::stable_partition(evidence.positions.begin(), evidence.positions.end(),
                        [](const GroupPosition& position) { return position.at.is_pending; });
  cut(evidence.clusters, clusters_max, without_stack);
  cut(evidence.positions, positions_max, without_position);
  // Shorter stacks are better than fewer.
  for (auto& cluster : evidence.clusters) {
    if (evidence.clusters.size() > clusters_with_whole_stacks_max) {
      shorten(cluster.stack, frames_of_many_max);
      shorten(cluster.native_stack, frames_of_many_max);
    }
  }
  fit(evidence.clusters, clusters_bytes_max, without_stack);
  fit(evidence.positions, positions_bytes_max, without_position);
  unite(evidence.positions);
  RankSet ignored;  // reasons beyond the limit: those that stay say enough
  cut(evidence.unread, unread_max - 2, ignored);
  if (!without_stack.empty()) {
    evidence.unread.push_back(
        {"stack omitted: too many different stacks on this node", std::move(without_stack)});
  }
  if (!without_position.empty()) {
    evidence.unread.push_back({"last operations omitted: this node has too many different ones",
                               std::move(without_position)});
  }
  unite(evidence.unread);
}

}  // namespace cpprun::hang
