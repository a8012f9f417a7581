// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <exception>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "launcher/hang/observation.h"
#include "proto/fields_json.h"
#include "proto/parse_json.h"
#include "proto/text.h"

namespace cpprun::hang {

namespace {

using Json = nlohmann::json;

// Groups of one rank: one per dimension of its mesh, and a few more.
constexpr std::size_t groups_max = 64;
// Pending point-to-point operations of one rank. A pipeline has one for each neighbour.
constexpr std::size_t peers_max = 8;
constexpr std::size_t members_max = 1 << 20;
constexpr std::size_t tensors_shown_max = 4;
constexpr std::size_t dimensions_shown_max = 8;
constexpr std::int64_t sequence_max = std::int64_t{1} << 53;
// Workers of one node: more than any has.
constexpr std::size_t observations_max = 4096;

// --- the flight record ---------------------------------------------------------------------------

// A number, which PyTorch writes as text in some places. -1: none.
std::int64_t number_of(const Json& json) {
  std::int64_t number = -1;
  if (json.is_number_unsigned()) {
    const auto value = json.get<std::uint64_t>();
    if (value <= static_cast<std::uint64_t>(sequence_max))
      number = static_cast<std::int64_t>(value);
  } else if (json.is_string()) {
    number = exact_number<std::int64_t>(json.get_ref<const std::string&>()).value_or(-1);
  }
  return number < 0 || number > sequence_max ? -1 : number;
}

std::string text_at(const Json& json, std::size_t bytes_max) {
  return json.is_string() ? plain_line(json.get_ref<const std::string&>(), bytes_max)
                          : std::string();
}

bool is_true(const Json& object, const char* key) {
  const Json& found = member_or_null(object, key);
  return found.is_boolean() && found.get<bool>();
}

// A group as people call it. Names are unique, but the numbers of new_group; descriptions are not.
std::string group_text(const Json& name_and_description) {
  if (!name_and_description.is_array() || name_and_description.empty()) return {};
  const std::string name = text_at(name_and_description[0], 80);
  const std::string description =
      name_and_description.size() > 1 ? text_at(name_and_description[1], 60) : std::string();
  if (description == "default_pg") return description;
  if (description.empty() || description == "undefined") return fmt::format("group {}", name);
  return fmt::format("{} (group {})", description, name);
}

// "[4, 1024] Float".
std::string shape_text(const Json& sizes, const Json& types) {
  if (!sizes.is_array()) return {};
  std::string text;
  for (std::size_t at = 0; at < sizes.size(); ++at) {
    if (!text.empty()) text += ", ";
    if (at == tensors_shown_max) return fmt::format("{}{} more", text, sizes.size() - at);
    if (!sizes[at].is_array()) return {};
    std::vector<std::string> dimensions;
    for (const Json& each : sizes[at]) {
      if (dimensions.size() == dimensions_shown_max) break;
      const std::int64_t size = number_of(each);
      dimensions.push_back(size < 0 ? "?" : fmt::to_string(size));
    }
    text += fmt::format("[{}]", fmt::join(dimensions, ", "));
    if (types.is_array() && at < types.size()) {
      if (const std::string type = text_at(types[at], 20); !type.empty()) text += " " + type;
    }
  }
  return text;
}

// Of the text "[0, 1, 2, 3]". Empty if anything is wrong.
RankSet ranks_of(const Json& json) {
  RankSet ranks;
  if (!json.is_string()) return ranks;
  std::string_view text = trimmed(json.get_ref<const std::string&>());
  if (!text.starts_with('[') || !text.ends_with(']')) return ranks;
  text = text.substr(1, text.size() - 2);
  std::size_t count = 0;
  for (const std::string_view part : split(text, ',')) {
    const auto rank = exact_number<int>(trimmed(part));
    if (!rank || *rank < 0 || ++count > members_max) return {};
    // Sorted in practice; adding is quadratic otherwise.
    if (!ranks.empty() && ranks.last().value >= *rank) return {};
    ranks.add(Rank{*rank});
  }
  return ranks;
}

// The operations of one group.
struct GroupRecord {
  Position at;
  std::int64_t last = 0;
  std::vector<Position> peers;
};

Position position_of(const Json& entry, const std::string& group, std::int64_t sequence,
                     bool is_pending) {
  const std::string name = text_at(member_or_null(entry, "profiling_name"), name_bytes_max);
  return {.group = group,
          .sequence = sequence,
          .operation = name.substr(name.find(':') + 1),
          .shape = plain_line(shape_text(member_or_null(entry, "input_sizes"),
                                         member_or_null(entry, "input_dtypes")),
                              text_bytes_max),
          .is_pending = is_pending};
}

void add_entry(const Json& entry, std::map<std::string, GroupRecord>& groups,
               std::map<std::int64_t, std::string>& names) {
  const Json& process_group = member_or_null(entry, "process_group");
  const std::string group = group_text(process_group);
  if (group.empty()) return;
  if (!groups.contains(group) && groups.size() == groups_max) return;
  names.emplace(number_of(member_or_null(entry, "pg_id")), group);
  const Json& state = member_or_null(entry, "state");
  const bool is_completed = state.is_string() && state.get_ref<const std::string&>() == "completed";
  const bool is_pending = !is_true(entry, "retired") && !is_completed;
  GroupRecord& record = groups[group];
  if (is_true(entry, "is_p2p")) {
    const std::int64_t sequence = number_of(member_or_null(entry, "p2p_seq_id"));
    if (!is_pending || sequence < 0 || record.peers.size() == peers_max) return;
    record.peers.push_back(position_of(entry, group, sequence, true));
    return;
  }
  const std::int64_t sequence = number_of(member_or_null(entry, "collective_seq_id"));
  if (sequence < 0) return;
  record.last = std::max(record.last, sequence);
  Position& at = record.at;
  // The oldest pending operation, or the last operation.
  const bool is_better =
      at.is_pending ? is_pending && sequence < at.sequence : is_pending || sequence >= at.sequence;
  if (is_better) at = position_of(entry, group, sequence, is_pending);
}

// --- observations --------------------------------------------------------------------------------

struct Invalid : std::runtime_error {
  using runtime_error::runtime_error;
};

struct ObservationFormat {
  void fields(auto& f, Of<ThreadObservation> auto& thread) const {
    f("tid", thread.tid), f("name", thread.name), f("state", thread.state);
    f("channel", thread.wait_channel), f("call", thread.system_call);
    f("cpu", thread.cpu), f("meanwhile", thread.cpu_meanwhile);
  }
  void fields(auto& f, Of<ProcessObservation> auto& process) const {
    f("pid", process.pid), f("parent", process.parent), f("name", process.name);
    f("state", process.state), f("threads", process.threads), f("count", process.thread_count);
  }
  void fields(auto& f, Of<Answer> auto& answer) const {
    f("kind", answer.kind), f("body", answer.body), f("reason", answer.reason);
    f("took", answer.took);
  }
  void fields(auto& f, Of<Observation> auto& seen) const {
    f("local", seen.local_rank), f("rank", seen.rank), f("pid", seen.pid);
    f("exited", seen.has_exited), f("process", seen.process), f("children", seen.children);
    f("interval", seen.interval), f("ping", seen.ping), f("traceback", seen.traceback);
    f("flight", seen.flight_record), f("py_spy", seen.py_spy), f("native", seen.native);
    f("native_reason", seen.native_reason), f("nccl", seen.nccl_record);
    f("shows_native", seen.shows_native), f("memory", seen.memory);
    f("holds_gil", seen.main_holds_gil);
    f.added("later", seen.later_tracebacks);
  }

  // Whatever a worker says, the reader accepts what is written here.
  static Json write(Duration duration) {
    return std::clamp<std::int64_t>(duration.count(), 0, sequence_max);
  }
  static Json write(const std::string& text) {
    return text.size() > answer_bytes_max ? text.substr(0, answer_bytes_max) : text;
  }
  static Json write(std::same_as<char> auto state) { return std::string(1, state); }
  static Json write(Answer::Kind kind) { return static_cast<int>(kind); }

  static void read(const char* key, const Json& json, int& number) {
    const std::int64_t value = number_of(json);
    if (value < 0 || value > std::numeric_limits<int>::max()) throw Invalid(key);
    number = static_cast<int>(value);
  }
  static void read(const char* key, const Json& json, Duration& duration) {
    const std::int64_t value = number_of(json);
    if (value < 0) throw Invalid(key);
    duration = Duration(value);
  }
  static void read(const char* key, const Json& json, char& state) {
    if (!json.is_string() || json.get_ref<const std::string&>().size() != 1) throw Invalid(key);
    state = json.get_ref<const std::string&>().front();
    if (state < ' ' || state > '~') throw Invalid(key);
  }
  static void read(const char* key, const Json& json, Answer::Kind& kind) {
    int number = 0;
    read(key, json, number);
    if (number > static_cast<int>(Answer::Kind::failed)) throw Invalid(key);
    kind = static_cast<Answer::Kind>(number);
  }
  static void read(const char* key, const Json& json, std::string& text) {
    if (!json.is_string()) throw Invalid(key);
    text = json.get_ref<const std::string&>();
    if (text.size() > answer_bytes_max) throw Invalid(key);
  }
  template <class Entry>
  void read(const char* key, const Json& json, std::vector<Entry>& entries) const {
    constexpr std::size_t count_max =
        std::same_as<Entry, ThreadObservation> ? threads_max : children_max;
    if (!json.is_array() || json.size() > count_max) throw Invalid(key);
    entries.clear();
    for (const Json& each : json) read_json(*this, key, each, entries.emplace_back());
  }
};

// Evidence that cannot be read costs no other worker's. Its fields begin with whose it is.
Observation observation_of(const Json& json) {
  Observation seen;
  try {
    read_json(ObservationFormat{}, "", json, seen);
    return seen;
  } catch (const std::exception& error) {
    if (seen.pid == 0) throw;
    Observation unread{.local_rank = seen.local_rank,
                       .rank = seen.rank,
                       .pid = seen.pid,
                       .has_exited = seen.has_exited};
    unread.traceback = {.kind = Answer::Kind::failed,
                        .body = {},
                        .reason = fmt::format("cannot read the evidence: invalid {}",
                                              plain_line(error.what(), 200))};
    return unread;
  }
}

}  // namespace

Result<std::vector<Position>> parse_flight_record(std::string_view json) {
  const Json root = parse_json(json);
  if (!root.is_object()) return failure("the answer is not a JSON object");
  const Json& entries = member_or_null(root, "entries");
  if (!entries.is_null() && !entries.is_array()) return failure("\"entries\" is not a list");
  std::map<std::string, GroupRecord> groups;
  std::map<std::int64_t, std::string> names;  // by pg_id, a number of this process
  for (const Json& entry : entries) add_entry(entry, groups, names);

  // An old operation may have left the recorder's ring. The default group always has number 0.
  if (!groups.contains("default_pg") && groups.size() < groups_max) {
    const Json& status = member_or_null(member_or_null(root, "pg_status"), "0");
    const std::int64_t last = number_of(member_or_null(status, "last_enqueued_collective"));
    if (last > 0 && !names.contains(0)) {
      groups["default_pg"] = {.at = {.group = "default_pg", .sequence = last}, .last = last};
    }
  }
  // gloo leaves the names empty, and then all groups have the same entry.
  std::map<std::string, RankSet> members;
  if (const Json& config = member_or_null(root, "pg_config"); config.is_object()) {
    for (const auto& [name, group] : config.items()) {
      if (name.empty() || members.size() == groups_max) continue;
      const std::string title = group_text(Json::array({name, member_or_null(group, "desc")}));
      members[title] = ranks_of(member_or_null(group, "ranks"));
    }
  }
  std::vector<Position> positions;
  for (auto& [name, record] : groups) {
    const auto found = members.find(name);
    const RankSet* const ranks =
        found == members.end() || name == "default_pg" ? nullptr : &found->second;
    if (!record.at.group.empty()) {
      record.at.queued = record.last - record.at.sequence;
      record.peers.insert(record.peers.begin(), std::move(record.at));
    }
    for (auto& position : record.peers) {
      if (ranks != nullptr) position.members = *ranks;
      positions.push_back(std::move(position));
    }
  }
  return positions;
}

Result<std::vector<ThreadStack>> parse_py_spy(std::string_view json) {
  constexpr std::size_t stacks_max = 256;
  const Json root = parse_json(json);
  if (!root.is_array()) return failure("the output of py-spy is not a JSON list");
  std::vector<ThreadStack> stacks;
  for (const Json& thread : root) {
    const Json& frames = member_or_null(thread, "frames");
    if (!frames.is_array() || stacks.size() == stacks_max) continue;
    ThreadStack stack{.name = text_at(member_or_null(thread, "thread_name"), name_bytes_max)};
    const std::int64_t tid = number_of(member_or_null(thread, "os_thread_id"));
    stack.is_main =
        tid > 0 ? tid == number_of(member_or_null(thread, "pid")) : stack.name == "MainThread";
    for (const Json& frame : frames) {
      if (stack.frames.size() == stacks_max) break;
      const std::int64_t line = number_of(member_or_null(frame, "line"));
      const bool is_line = line >= 0 && line <= std::numeric_limits<int>::max();
      stack.frames.push_back({.function = text_at(member_or_null(frame, "name"), name_bytes_max),
                              .file = text_at(member_or_null(frame, "filename"), text_bytes_max),
                              .line = is_line ? static_cast<int>(line) : 0});
    }
    stacks.push_back(std::move(stack));
  }
  if (stacks.empty()) return failure("the output of py-spy has no threads");
  return stacks;
}

std::string to_text(const std::vector<Observation>& observations) {
  std::string bytes;
  Json::to_cbor(json_of<Json>(ObservationFormat{}, observations), bytes);
  return bytes;
}

Result<std::vector<Observation>> observations_of(std::string_view text) {
  const Json json = parse_cbor(text);
  if (!json.is_array() || json.size() > observations_max) {
    return failure("cannot read the evidence of the workers: not a list in CBOR");
  }
  std::vector<Observation> observations;
  try {
    for (const Json& each : json) observations.push_back(observation_of(each));
  } catch (const std::exception& error) {
    return failure(fmt::format("cannot read the evidence of the workers: invalid {}",
                               plain_line(error.what(), 200)));
  }
  return observations;
}

}  // namespace cpprun::hang
