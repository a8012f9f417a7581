// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/doctor/findings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "launcher/hang/python_memory.h"
#include "proto/text.h"
#include "rendezvous/endpoint.h"

namespace cpprun::doctor {

namespace {

constexpr auto clock_apart_max = std::chrono::seconds(1);
constexpr std::size_t named_max = 8;

std::string few(const std::vector<std::string>& names) {
  if (names.size() <= named_max) return fmt::format("{}", fmt::join(names, ", "));
  const std::vector<std::string> first(names.begin(), names.begin() + named_max);
  return fmt::format("{} and {} others", fmt::join(first, ", "), names.size() - named_max);
}

class Judge {
 public:
  Judge(const std::vector<ExaminedHost>& hosts, const Expected& expected)
      : hosts_(hosts), expected_(expected) {
    for (const auto& host : hosts_) {
      if (host.facts) gpus_most_ = std::max(gpus_most_, host.facts->gpus.usable);
    }
    for (const auto& host : hosts_) {
      if (host.facts && host.facts->gpus.usable == gpus_most_ && gpus_host_.empty()) {
        gpus_host_ = title_of(host);
      }
    }
  }

  std::vector<Finding> judge() {
    for (const auto& host : hosts_) {
      host_ = &host;
      if (!host.gone.empty()) {
        add("examination failed: " + host.gone,
            "make sure that the remote shell can run a command there without a prompt");
      }
      if (!host.facts) continue;
      judge_program(*host.facts);
      judge_clock();
      if (!lacks_gpus(*host.facts)) compare_gpus(host.facts->gpus);
      std::ranges::move(own_findings(*host.facts, title_of(host)), std::back_inserter(findings_));
      judge_port(*host.facts);
    }
    for (const auto& host : hosts_) {
      host_ = &host;
      judge_name();
      judge_way();
    }
    return std::move(findings_);
  }

 private:
  void add(std::string what, std::string hint) {
    findings_.push_back({title_of(*host_), std::move(what), std::move(hint)});
  }

  void judge_program(const HostFacts& facts) {
    const std::string wanted = "cpprun " + expected_.version;
    if (expected_.is_shipped || facts.cpprun == wanted) return;
    const std::string hint =
        "install the version of this machine, at the same path or on PATH, or start jobs with "
        "--ship";
    if (facts.cpprun.empty()) {
      return add("found no cpprun next to cpprunctl or on PATH", hint);
    }
    add(fmt::format("{} is installed, but this machine has {}", facts.cpprun, wanted), hint);
  }

  // Compares with the median of all clocks: the console's own clock may be wrong as well.
  void judge_clock() {
    std::vector<Duration> offsets;
    for (const auto& host : hosts_) {
      if (host.clock) offsets.push_back(host.clock->offset);
    }
    if (!host_->clock || offsets.size() < 2) return;
    std::ranges::sort(offsets);
    const Duration apart = host_->clock->offset - offsets[(offsets.size() - 1) / 2];
    const Duration distance = apart < Duration{} ? -apart : apart;
    if (distance <= clock_apart_max + host_->clock->error) return;
    add(fmt::format("clock is {:.1f} s {} the other hosts", in_seconds(distance),
                    apart > Duration{} ? "ahead of" : "behind"),
        "synchronize the clock with chrony or systemd-timesyncd (timedatectl); otherwise the times "
        "in logs do not match, and tokens and certificates may be rejected");
  }

  void compare_gpus(const GpuCounts& gpus) {
    if (gpus.usable >= gpus_most_) return;
    add(fmt::format("{} GPU{}, but {} has {}", gpus.usable, gpus.usable == 1 ? "" : "s", gpus_host_,
                    gpus_most_),
        fmt::format(
            "if that is intended, set the slots: --hosts {}:{}; otherwise check nvidia-smi there",
            title_of(*host_), std::max(gpus.usable, 1)));
  }

  void judge_port(const HostFacts& facts) {
    if (facts.why_no_port.empty()) return;
    add("cannot listen: " + facts.why_no_port,
        "find the owner of the port with ss -ltnp and stop it, or use another --port");
  }

  // Calls `take` for each host that tried to reach this host, with the result.
  template <class Take>
  void for_each_look(const Take& take) const {
    for (const auto& other : hosts_) {
      for (const auto& dialed : other.dialed) {
        if (dialed.number == host_->member.number) take(other, dialed);
      }
    }
  }

  void judge_name() {
    std::vector<std::string> lost;
    std::vector<std::string> astray;
    std::string why;
    for_each_look([&](const ExaminedHost& other, const Dialed& dialed) {
      const bool is_loop = !dialed.addresses.empty() &&
                           std::ranges::all_of(dialed.addresses, [](const auto& address) {
                             return is_loopback(address);
                           });
      const bool is_same = other.facts && host_->facts && !other.facts->network.empty() &&
                           other.facts->network == host_->facts->network;
      if (!dialed.why_unresolved.empty()) {
        lost.push_back(title_of(other));
        why = dialed.why_unresolved;
      } else if (is_loop && !is_same) {
        astray.push_back(title_of(other));
        why = dialed.addresses.front();
      }
    });
    const char* const hint =
        "add the name to DNS, or to /etc/hosts there; cpprun --hosts uses addresses, but "
        "--master-addr and MASTER_ADDR with this name would fail";
    if (!lost.empty()) {
      add(fmt::format("name cannot be resolved on {}: {}", few(lost), why), hint);
    }
    if (!astray.empty()) {
      add(fmt::format("name resolves to the loopback address {} on {}", why, few(astray)),
          "remove the name from the loopback line of /etc/hosts there");
    }
  }

  void judge_way() {
    struct Failed {
      std::vector<std::string> by;
      std::string where, why;
    };
    std::map<Reached, Failed> failures;
    std::size_t looked = 0;
    for_each_look([&](const ExaminedHost& other, const Dialed& dialed) {
      if (dialed.reached == Reached::not_tried) return;
      ++looked;
      if (dialed.reached == Reached::yes) return;
      // Already reported as a problem of its name.
      if (dialed.reached == Reached::unresolved && !dialed.why_unresolved.empty()) return;
      Failed& failed = failures[dialed.reached];
      failed.by.push_back(title_of(other));
      failed.where = dialed.where;
      failed.why = dialed.why;
    });
    for (const auto& [how, failed] : failures) {
      const std::string who =
          failed.by.size() == looked && looked > 1 ? "every host that tried" : few(failed.by);
      add(fmt::format("unreachable at {} from {}: {}", failed.where, who, failed.why),
          hint_of(how));
    }
  }

  static std::string hint_of(Reached how) {
    switch (how) {
      case Reached::silent:
        return "check the address and the firewall (iptables -S, nft list ruleset); the hosts of a "
               "job must reach each other on all ports, or at least on --master-port of the first "
               "host and on net.ipv4.ip_local_port_range of all hosts";
      case Reached::refused:
        return "check whether a firewall rejects connections, or another machine has this address "
               "(iptables -S, nft list ruleset, ip address)";
      case Reached::unrelated:
        return "check whether two hosts have this address, or a NAT or forwarded port leads to "
               "another machine; use an address that all hosts can reach (--master-addr)";
      case Reached::unresolved:
        return "add the name to DNS, or to /etc/hosts there";
      case Reached::yes:
      case Reached::failed:
      case Reached::not_tried:
        break;
    }
    return "check the route (ip route get ADDRESS, ping), and that the interfaces are up";
  }

  const std::vector<ExaminedHost>& hosts_;
  const Expected& expected_;
  const ExaminedHost* host_ = nullptr;  // the host being checked
  int gpus_most_ = 0;
  std::string gpus_host_;  // the first host with `gpus_most_` GPUs
  std::vector<Finding> findings_;
};

}  // namespace

std::string title_of(const ExaminedHost& host) {
  if (!host.member.name.empty() || !host.facts) return host.member.name;
  return host.facts->host;
}

Sight sight_of(const ExaminedHost& host) {
  Sight sight{.looked_for = static_cast<int>(host.dialed.size())};
  for (const auto& dialed : host.dialed) {
    if (dialed.why_unresolved.empty()) ++sight.resolved;
    if (dialed.reached == Reached::yes) ++sight.reached;
  }
  return sight;
}

std::vector<Finding> findings_of(const std::vector<ExaminedHost>& hosts, const Expected& expected) {
  return Judge(hosts, expected).judge();
}

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

// "cpprun 0.1.0 (commit …)" without the program's name.
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

std::string host_table(const std::vector<ExaminedHost>& hosts, const Canvas& canvas) {
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
  // No column is cut, since users paste this into bug reports.
  return table_text(table, {.width = 0, .has_colour = canvas.has_colour});
}

// "2.13.0+cpu" is 2 and 13.
bool is_older(std::string_view version, int major, int minor) {
  const int first = leading_number<int>(version).value_or(0);
  const auto dot = version.find('.');
  const auto rest = dot == std::string_view::npos ? "" : version.substr(dot + 1);
  return std::pair(first, leading_number<int>(rest).value_or(0)) < std::pair(major, minor);
}

std::string probe_text(const StackSources& stacks) {
  if (stacks.python.empty()) return "no Python";
  if (stacks.torch.empty()) return fmt::format("no PyTorch (Python {})", stacks.python);
  const auto versions = fmt::format("PyTorch {}, Python {}", stacks.torch, stacks.python);
  if (is_older(stacks.torch, 2, 4)) return fmt::format("no ({}; needs PyTorch 2.4)", versions);
  if (is_older(stacks.torch, 2, 9)) {
    return fmt::format("stacks only ({}; operations need PyTorch 2.9)", versions);
  }
  return fmt::format("yes ({})", versions);
}

std::string ptrace_text(const StackSources& stacks) {
  const auto scope =
      stacks.ptrace_scope ? fmt::format("ptrace_scope {}", *stacks.ptrace_scope) : std::string();
  if (!stacks.ptrace_refusal.empty()) {
    return fmt::format("no ({}{}{})", stacks.ptrace_refusal, scope.empty() ? "" : "; ", scope);
  }
  return stacks.ptrace_scope == 1 ? fmt::format("yes, except with --probe=off ({})", scope) : "yes";
}

// cpprun itself reads the memory of some releases, with the same permission.
std::string py_spy_text(const StackSources& stacks) {
  if (stacks.has_py_spy) return "yes";
  const bool is_read = hang::has_known_layout(stacks.python) && stacks.ptrace_refusal.empty();
  return is_read ? fmt::format("not needed (Python {})", stacks.python) : "not on PATH";
}

// What cpprun can read of workers that hang. /proc is always readable.
std::string sources_table(const std::vector<ExaminedHost>& hosts, const Canvas& canvas) {
  Table table{.columns = {{"HOST"}, {"PROBE"}, {"PY-SPY"}, {"LIBDW"}, {"PTRACE"}}, .rows = {}};
  for (const auto& host : hosts) {
    if (!host.facts || !host.facts->stacks) continue;
    const StackSources& stacks = *host.facts->stacks;
    table.rows.push_back(
        {{title_of(host)},
         {probe_text(stacks)},
         {py_spy_text(stacks)},
         {stacks.libdw_refusal.empty() ? "yes" : "no (" + stacks.libdw_refusal + ")"},
         {ptrace_text(stacks)}});
  }
  if (table.rows.empty()) return {};
  return "\nsources for the stacks of hung workers, besides /proc:\n" +
         table_text(table, {.width = 0, .has_colour = canvas.has_colour});
}

std::string pairs_text(const std::vector<ExaminedHost>& hosts) {
  std::size_t tried = 0;
  for (const auto& host : hosts) tried += host.dialed.size();
  const std::size_t all = hosts.size() * (hosts.size() - 1);
  if (hosts.size() < 2 || hosts.size() <= others_max + 1) return {};
  return fmt::format(
      "each host tested connections to the next {} hosts in the list and to the first host: {} of "
      "{} pairs\n",
      others_max, tried, all);
}

}  // namespace

std::string doctor_text(const std::vector<ExaminedHost>& hosts,
                        const std::vector<Finding>& findings, const Canvas& canvas) {
  const std::string sources = sources_table(hosts, canvas);
  std::string text = host_table(hosts, canvas) + pairs_text(hosts) + sources;
  if (findings.empty()) return text + (sources.empty() ? "" : "\n") + "no problems found\n";
  text += fmt::format("\n{} finding{}:\n", findings.size(), findings.size() == 1 ? "" : "s");
  for (const auto& finding : findings) {
    text += fmt::format("  {} {}\n",
                        tinted(plain_line(finding.host) + ":", Tint::bad, canvas.has_colour),
                        plain_line(finding.what));
    if (!finding.hint.empty()) text += fmt::format("    hint: {}\n", plain_line(finding.hint));
  }
  return text;
}

}  // namespace cpprun::doctor
