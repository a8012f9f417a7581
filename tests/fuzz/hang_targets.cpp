// SPDX-License-Identifier: BSD-3-Clause
#include "tests/fuzz/hang_targets.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "launcher/hang/observation.h"
#include "launcher/hang/python_memory.h"
#include "proto/json_text.h"
#include "proto/parse_json.h"
#include "rendezvous/hang/evidence.h"
#include "rendezvous/hang/evidence_json.h"
#include "rendezvous/hang/verdict.h"
#include "tests/fuzz/targets.h"

namespace cpprun::fuzz {

namespace {

bool is_one_line(std::string_view text) {
  return text.find_first_of("\n\r\x1b") == std::string_view::npos;
}

// Evidence of any worker can be sent to the coordinator, and judged there.
void judge(const hang::Observation& observation) {
  const hang::WorkerEvidence worker = hang::evidence_of(observation);
  hang::Evidence evidence = hang::cluster({worker});
  hang::limit(evidence);
  const std::string json = hang::evidence_json(evidence);
  promise(json.size() < 32 * 1024, "evidence larger than a frame");
  const auto again = hang::parse_evidence(json);
  promise(again.has_value(), "evidence that its reader rejects");
  promise(*again == evidence, "other evidence after writing and reading");
  const hang::Verdict verdict = hang::verdict_of(evidence, 4);
  promise(!verdict.sentence.empty(), "a verdict without a sentence");
  promise(is_one_line(verdict.sentence), "a verdict of several lines");
  static_cast<void>(hang::full_text(observation));
}

void judge_answer(hang::Answer hang::Observation::*member, std::string_view bytes) {
  hang::Observation observation{.rank = Rank{1}, .process = {.state = 'S'}};
  observation.*member = {.kind = hang::Answer::Kind::answered, .body = std::string(bytes)};
  judge(observation);
}

// The library also takes a byte order mark, and a zero byte as the end. It rejects numbers beyond
// those of a double, which have an exponent or hundreds of digits.
void judge_reader(std::string_view bytes) {
  constexpr std::size_t depth_max = 8;
  constexpr std::size_t bytes_max = 300;
  constexpr std::string_view digits = "0123456789";
  for (std::size_t at = 1; at < bytes.size(); ++at) {
    const bool is_exponent = (bytes[at] | 0x20) == 'e' && digits.find(bytes[at - 1]) != digits.npos;
    if (is_exponent) return;
  }
  const bool is_special = bytes.starts_with("\xEF\xBB\xBF") || bytes.find('\0') != bytes.npos;
  if (is_special || bytes.size() > bytes_max) return;
  bool is_read = true;
  try {
    JsonText json(bytes, depth_max);
    json.skip();
    json.end();
  } catch (const JsonText::Invalid&) {
    is_read = false;
  }
  promise(is_read != parse_json(bytes, depth_max).is_discarded(), "two readers of JSON disagree");
}

}  // namespace

void traceback(std::string_view bytes) {
  if (const auto stacks = hang::parse_traceback(bytes)) {
    promise(!stacks->empty(), "a traceback without a thread");
  }
  judge_answer(&hang::Observation::traceback, bytes);
}

void flight_record(std::string_view bytes) {
  judge_answer(&hang::Observation::flight_record, bytes);
}

void py_spy(std::string_view bytes) {
  judge_answer(&hang::Observation::py_spy, bytes);
}

// The bytes are at an address that the corpus has in its pointers. At addresses far away they are
// repeated without end, so that tables, lists and texts may have any size.
void python_memory(std::string_view bytes) {
  constexpr std::uint64_t base = 0x7f0000000000;
  constexpr std::uint64_t far = base + (std::uint64_t{1} << 32);
  constexpr int main_thread = 812;
  std::size_t bytes_read = 0;
  const auto copy = [&](std::uint64_t address, std::span<char> to) {
    bytes_read += to.size();
    if (address >= far && !bytes.empty()) {
      std::uint64_t at = (address - far) % bytes.size();
      for (char& each : to) {
        each = bytes[at];
        at = at + 1 == bytes.size() ? 0 : at + 1;
      }
      return true;
    }
    if (address < base || address - base > bytes.size()) return false;
    const std::string_view rest = bytes.substr(address - base);
    if (rest.size() < to.size()) return false;
    std::copy_n(rest.begin(), to.size(), to.begin());
    return true;
  };
  static_cast<void>(hang::find_python(bytes));
  const auto read = hang::read_python({.read = copy, .pause = [] {}}, base, main_thread);
  promise(bytes_read <= 64 << 20, "more memory read than one worker may cost");
  if (!read) {
    promise(!read.error().reason.empty(), "a refusal without a reason");
    return;
  }
  const auto stacks = hang::parse_traceback(read->traceback);
  promise(stacks.has_value(), "a traceback that its reader rejects");
  promise(std::ranges::none_of(read->traceback,
                               [](char byte) { return byte == '\r' || byte == '\x1b'; }),
          "a control character in a traceback");
  promise(read->traceback.size() <= hang::memory_traceback_bytes_max,
          "a traceback that is too long");
  judge_answer(&hang::Observation::memory, read->traceback);
}

void observations(std::string_view bytes) {
  const auto read = hang::observations_of(bytes);
  if (!read) {
    promise(!read.error().reason.empty(), "a refusal without a reason");
    return;
  }
  const auto again = hang::observations_of(hang::to_text(*read));
  promise(again && *again == *read, "other observations after writing and reading");
  for (const auto& observation : *read) judge(observation);
}

void hang_evidence(std::string_view bytes) {
  judge_reader(bytes);
  auto read = hang::parse_evidence(bytes);
  if (!read) {
    promise(!read.error().reason.empty(), "a refusal without a reason");
    return;
  }
  promise(hang::parse_evidence(hang::evidence_json(*read)).has_value(),
          "evidence that its reader rejects");
  for (const int world_size : {0, 3, 100}) {
    const hang::Verdict verdict = hang::verdict_of(*read, world_size);
    promise(hang::parse_verdict(hang::verdict_json(verdict)) == verdict,
            "another verdict after writing and reading");
  }
  hang::Evidence both = hang::merged({*read, *read});
  hang::limit(both);
  promise(both.clusters.size() <= hang::clusters_max, "too many clusters");
}

}  // namespace cpprun::fuzz
