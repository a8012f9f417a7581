// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/hang/evidence_json.h"

#include <fmt/format.h>

#include <concepts>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "proto/fields_json.h"
#include "proto/json_text.h"
#include "proto/text.h"

namespace cpprun::hang {

namespace {

using Json = nlohmann::ordered_json;

// Sequence numbers beyond this are not exact in every reader of JSON.
constexpr std::int64_t sequence_max = std::int64_t{1} << 53;
// A sentence names a few places.
constexpr std::size_t sentence_bytes_max = 4096;
constexpr std::size_t depth_max = 8;
// A text that was cut ends in "…", which does not count.
constexpr std::size_t ellipsis_bytes = 3;

using Invalid = JsonText::Invalid;

struct HangFormat {
  std::size_t entries_max = 0;

  // Each field is omitted if it is empty.
  void fields(auto& f, Of<Position> auto& at) const {
    f("group", at.group), f.where_known("number", at.sequence);
    f.where_known("operation", at.operation), f.where_known("shape", at.shape);
    f.where_known("pending", at.is_pending), f.where_known("queued", at.queued);
    f.where_known("members", at.members);
  }
  void fields(auto& f, Of<GroupPosition> auto& position) const {
    fields(f, position.at);
    f("ranks", position.ranks);
  }
  void fields(auto& f, Of<Cluster> auto& cluster) const {
    f("ranks", cluster.ranks), f("activity", cluster.activity);
    f.where_known("detail", cluster.detail), f.where_known("native", cluster.is_native);
    f.where_known("stack", cluster.stack), f.where_known("native_stack", cluster.native_stack);
  }
  void fields(auto& f, Of<Unread> auto& unread) const {
    f("reason", unread.reason), f("ranks", unread.ranks);
  }
  void fields(auto& f, Of<Evidence> auto& evidence) const {
    f("clusters", evidence.clusters), f("positions", evidence.positions);
    f.where_known("unread", evidence.unread);
  }
  void fields(auto& f, Of<Verdict> auto& verdict) const {
    f("kind", verdict.kind), f("sentence", verdict.sentence), f("rank", verdict.rank);
  }

  static Json write(const RankSet& ranks) { return ranks.ranges_text(); }
  static Json write(const Frame& frame) { return {frame.function, frame.file, frame.line}; }
  static Json write(Activity activity) { return name_of(activity); }
  static Json write(Verdict::Kind kind) { return name_of(kind); }

  static std::string text(const char* key, JsonText& json, std::size_t bytes_max) {
    const std::string_view text = json.string();
    if (text.size() > bytes_max + ellipsis_bytes) {
      throw Invalid(fmt::format("\"{}\" is too long", key));
    }
    return plain_line(text);
  }
  static std::int64_t number(const char* key, JsonText& json, std::int64_t most) {
    const std::uint64_t number = json.number();
    if (number > static_cast<std::uint64_t>(most)) {
      throw Invalid(fmt::format("\"{}\" is out of range", key));
    }
    return static_cast<std::int64_t>(number);
  }
  template <class Enum>
  static Enum named(const char* key, JsonText& json, Enum last) {
    const std::string_view name = json.string();
    for (int at = 0; at <= static_cast<int>(last); ++at) {
      if (name_of(static_cast<Enum>(at)) == name) return static_cast<Enum>(at);
    }
    throw Invalid(fmt::format("unknown \"{}\": \"{}\"", key, plain_line(name, name_bytes_max)));
  }

  static void read(const char* key, JsonText& json, std::string& value) {
    value =
        text(key, json, std::string_view(key) == "sentence" ? sentence_bytes_max : text_bytes_max);
  }
  static void read(const char* key, JsonText& json, std::int64_t& value) {
    value = number(key, json, sequence_max);
  }
  static void read(const char* key, JsonText& json, Rank& rank) {
    rank.value = static_cast<int>(number(key, json, std::numeric_limits<int>::max()));
  }
  static void read(const char* key, JsonText& json, RankSet& ranks) {
    auto parsed = RankSet::parse(json.string());
    if (!parsed) throw Invalid(parsed.error().reason);
    if (parsed->empty()) throw Invalid(fmt::format("\"{}\" is empty", key));
    ranks = *std::move(parsed);
  }
  static void read(const char* key, JsonText& json, Frame& frame) {
    int parts = 0;
    json.each_entry([&] {
      switch (parts++) {
        case 0:
          frame.function = text(key, json, name_bytes_max);
          break;
        case 1:
          frame.file = text(key, json, text_bytes_max);
          break;
        case 2:
          frame.line = static_cast<int>(number(key, json, std::numeric_limits<int>::max()));
          break;
        default:
          throw Invalid("a frame is not a list of 3");
      }
    });
    if (parts != 3) throw Invalid("a frame is not a list of 3");
  }
  static void read(const char* key, JsonText& json, Activity& activity) {
    activity = named(key, json, Activity::unknown);
  }
  static void read(const char* key, JsonText& json, Verdict::Kind& kind) {
    kind = named(key, json, Verdict::Kind::unknown);
  }
  template <class Entry>
  void read(const char* key, JsonText& json, std::vector<Entry>& entries) const {
    const std::size_t most = std::same_as<Entry, Frame> ? frames_max : entries_max;
    entries.clear();
    json.each_entry([&] {
      if (entries.size() == most) {
        throw Invalid(fmt::format("\"{}\" has more than {} entries", key, most));
      }
      read_text(*this, key, json, entries.emplace_back());
    });
  }
};

template <class T>
Result<T> parsed(const char* what, std::string_view text, std::size_t entries_max) {
  try {
    return value_of_text<T>(HangFormat{entries_max}, JsonText(text, depth_max));
  } catch (const JsonText::Invalid& error) {
    return failure(fmt::format("invalid {}: {}", what, plain_line(error.what(), text_bytes_max)));
  }
}

}  // namespace

std::string evidence_json(const Evidence& evidence) {
  return text_of_json(json_of<Json>(HangFormat{}, evidence));
}

Result<Evidence> parse_evidence(std::string_view json, std::size_t entries_max) {
  return parsed<Evidence>("evidence about a hang", json, entries_max);
}

std::string verdict_json(const Verdict& verdict) {
  return text_of_json(json_of<Json>(HangFormat{}, verdict));
}

Result<Verdict> parse_verdict(std::string_view json) {
  return parsed<Verdict>("verdict about a hang", json, 0);
}

}  // namespace cpprun::hang
