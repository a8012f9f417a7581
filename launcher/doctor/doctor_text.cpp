// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/doctor/doctor_text.h"

#include <fmt/format.h>

#include "launcher/doctor/sizes.h"
#include "proto/text.h"

namespace cpprun::doctor {

namespace {

std::string limit_text(const std::optional<std::uint64_t>& limit) {
  return limit ? std::to_string(*limit) : "unlimited";
}

std::string gpus_text(const GpuCounts& gpus) {
  const int there = gpus_there(gpus);
  return gpus.usable == there ? std::to_string(there) : fmt::format("{} of {}", gpus.usable, there);
}

std::string clock_text(const std::optional<ClockOffset>& clock) {
  if (!clock) return "-";
  return fmt::format("{:+.3f} s", in_seconds(clock->offset));
}

// "cpprun 0.1.0 (commit …)" without what all have in common.
std::string version_text(const HostFacts& facts) {
  constexpr std::string_view program = "cpprun ";
  if (facts.cpprun.empty()) return "none";
  const auto version = std::string_view(facts.cpprun);
  const auto number = version.starts_with(program) ? version.substr(program.size()) : version;
  return std::string(number.substr(0, number.find(' ')));
}

std::vector<Cell> row_of(const ExaminedHost& host, bool has_others) {
  std::vector<Cell> row = {{title_of(host)}};
  if (!host.facts) {
    row.push_back({"not examined", Tint::bad});
    return row;
  }
  const HostFacts& facts = *host.facts;
  row.insert(row.end(),
             {{version_text(facts)},
              {gpus_text(facts.gpus)},
              {limit_text(facts.limits.open_files)},
              {limit_text(facts.limits.processes)},
              {facts.limits.locked_bytes ? size_text(*facts.limits.locked_bytes) : "unlimited"},
              {fmt::format("{} of {}", size_text(facts.shared_memory.free),
                           size_text(facts.shared_memory.size))},
              {size_text(facts.temporary.free)}});
  if (!has_others) return row;
  const Sight sight = sight_of(host);
  row.push_back({clock_text(host.clock)});
  row.push_back({fmt::format("{} of {}", sight.resolved, sight.looked_for),
                 sight.resolved < sight.looked_for ? Tint::bad : Tint::plain});
  row.push_back({fmt::format("{} of {}", sight.reached, sight.looked_for),
                 sight.reached < sight.looked_for ? Tint::bad : Tint::plain});
  return row;
}

std::string table_text(const std::vector<ExaminedHost>& hosts, const Canvas& canvas) {
  Table table{.columns = {{"HOST"},
                          {"CPPRUN"},
                          {"GPUS", true},
                          {"FILES", true},
                          {"PROCESSES", true},
                          {"LOCKED", true},
                          {"SHM FREE", true},
                          {"TMP FREE", true}},
              .rows = {}};
  const bool has_others = hosts.size() > 1;
  if (has_others) {
    table.columns.push_back({"CLOCK", true});
    table.columns.push_back({"NAMES", true});
    table.columns.push_back({"REACHES", true});
  }
  for (const auto& host : hosts) table.rows.push_back(row_of(host, has_others));
  // Nothing of it is cut: it is pasted into questions.
  std::string text;
  for (const auto& line : lines_of(table, {.width = 0, .has_colour = canvas.has_colour})) {
    text += line + "\n";
  }
  return text;
}

std::string pairs_text(const std::vector<ExaminedHost>& hosts) {
  std::size_t tried = 0;
  for (const auto& host : hosts) tried += host.dialed.size();
  const std::size_t all = hosts.size() * (hosts.size() - 1);
  if (hosts.size() < 2 || hosts.size() <= others_max + 1) return {};
  return fmt::format(
      "each host has looked for the {} after it in the list and for the first one: {} of {} "
      "pairs\n",
      others_max, tried, all);
}

}  // namespace

std::string doctor_text(const std::vector<ExaminedHost>& hosts,
                        const std::vector<Finding>& findings, const Canvas& canvas) {
  std::string text = table_text(hosts, canvas) + pairs_text(hosts);
  if (findings.empty()) return text + "nothing is wrong\n";
  text += fmt::format("\n{} finding{}:\n", findings.size(), findings.size() == 1 ? "" : "s");
  for (const auto& finding : findings) {
    text += fmt::format("  {} {}\n",
                        tinted(plain_line(finding.host) + ":", Tint::bad, canvas.has_colour),
                        plain_line(finding.what));
    if (!finding.cure.empty()) text += fmt::format("    {}\n", plain_line(finding.cure));
  }
  return text;
}

}  // namespace cpprun::doctor
