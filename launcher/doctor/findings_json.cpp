// SPDX-License-Identifier: BSD-3-Clause
#include <nlohmann/json.hpp>

#include "launcher/doctor/findings.h"
#include "proto/fields_json.h"

namespace cpprun::doctor {

namespace {

using Json = nlohmann::ordered_json;

const char* word_of(Reached reached) {
  switch (reached) {
    case Reached::yes:
      return "yes";
    case Reached::refused:
      return "refused";
    case Reached::silent:
      return "silent";
    case Reached::unresolved:
      return "unresolved";
    case Reached::unrelated:
      return "stranger";
    case Reached::failed:
      return "failed";
    case Reached::not_tried:
      return "not_tried";
  }
  return "";
}

// How a host reached another one.
struct Pair {
  std::string from;
  std::string to;
  Dialed dialed;
};

struct FindingsFormat {
  void fields(auto& f, const Disk& disk) const {
    f("path", disk.path), f("bytes", disk.size), f("free_bytes", disk.free);
    f("refusal", OrNull{disk.refusal});
  }
  void fields(auto& f, const HostFacts& facts) const {
    f("host", facts.host), f("cpprun", OrNull{facts.cpprun}), f("gpus", facts.gpus.usable);
    f("gpus_of_the_machine", gpus_there(facts.gpus));
    f("open_files_max", facts.limits.open_files), f("processes_max", facts.limits.processes);
    f("locked_bytes_max", facts.limits.locked_bytes), f("infiniband", facts.has_infiniband);
    f("shared_memory", facts.shared_memory), f("temporary", facts.temporary);
    f("port", OrNull{facts.port}), f.where_known("stacks", facts.stacks);
  }
  void fields(auto& f, const StackSources& stacks) const {
    f("python", OrNull{stacks.python}), f("torch", OrNull{stacks.torch});
    f("py_spy", stacks.has_py_spy), f("libdw_refusal", OrNull{stacks.libdw_refusal});
    f("ptrace_refusal", OrNull{stacks.ptrace_refusal}), f("ptrace_scope", stacks.ptrace_scope);
  }
  void fields(auto& f, const ExaminedHost& host) const {
    f("name", title_of(host)), f("address", OrNull{host.address});
    f("not_examined", OrNull{host.gone}), f("facts", host.facts);
    const auto& clock = host.clock;
    f("clock_ahead_seconds", clock ? std::optional(clock->offset) : std::nullopt);
    f("clock_error_seconds", clock ? std::optional(clock->error) : std::nullopt);
  }
  void fields(auto& f, const Finding& finding) const {
    f("host", finding.host), f("what", finding.what), f("cure", finding.hint);
  }
  void fields(auto& f, const Pair& pair) const {
    f("from", pair.from), f("to", pair.to), f("resolved", pair.dialed.addresses);
    f("why_unresolved", OrNull{pair.dialed.why_unresolved}), f("reached", pair.dialed.reached);
    f("where", OrNull{pair.dialed.where}), f("why", OrNull{pair.dialed.why});
  }

  static Json write(Duration duration) { return in_seconds(duration); }
  static Json write(Reached reached) { return word_of(reached); }
};

}  // namespace

std::string doctor_json(const std::vector<ExaminedHost>& hosts,
                        const std::vector<Finding>& findings) {
  std::vector<Pair> pairs;
  for (const auto& host : hosts) {
    for (const auto& dialed : host.dialed) {
      std::string other;
      for (const auto& each : hosts) {
        if (each.member.number == dialed.number) other = title_of(each);
      }
      pairs.push_back({title_of(host), other, dialed});
    }
  }
  const Json json{{"hosts", json_of<Json>(FindingsFormat{}, hosts)},
                  {"pairs", json_of<Json>(FindingsFormat{}, pairs)},
                  {"findings", json_of<Json>(FindingsFormat{}, findings)}};
  return text_of_json(json) + "\n";
}

}  // namespace cpprun::doctor
