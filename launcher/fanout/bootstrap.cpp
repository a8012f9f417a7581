// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/fanout/bootstrap.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "proto/text.h"

namespace cpprun::fanout {

namespace {

constexpr std::string_view mark = "cpprun-fanout ";

}  // namespace

// One group command, so that the shell reads all of it before running any of it: the bytes that
// follow on the stream are not for the shell. A shipped program deletes its file when it starts.
// The trap deletes the file if the transfer fails.
std::string bootstrap_script(const OwnBinary& own) {
  std::string script = fmt::format(
      "{{ w={}; o=; for f in {} \"$(command -v {})\"; do [ -x \"$f\" ] || continue; "
      "g=$(\"$f\" --version 2>/dev/null </dev/null); "
      "[ \"$g\" = \"$w\" ] && exec \"$f\" --fanout-child; o=${{g:-unknown}}; done; ",
      shell_word(own.program + " " + own.version), shell_word(own.path), own.program);
  if (own.sha256.empty()) {
    script += "[ -z \"$o\" ] && echo cpprun-fanout none || echo \"cpprun-fanout other $o\"; ";
  } else {
    script += fmt::format(
        "d=$(mktemp -d \"${{TMPDIR:-/tmp}}/cpprun.XXXXXX\" 2>/dev/null || "
        "mktemp -d /tmp/cpprun.XXXXXX) || "
        "{{ echo cpprun-fanout noplace; exit 1; }}; "
        "trap 'rm -rf \"$d\"' EXIT; trap 'exit 1' HUP INT TERM; echo cpprun-fanout send; "
        "head -c {} >\"$d/cpprun\"; h=$(sha256sum <\"$d/cpprun\"); "
        "[ \"${{h%% *}}\" = {} ] || {{ echo cpprun-fanout broken; exit 1; }}; "
        "chmod 700 \"$d/cpprun\"; \"$d/cpprun\" --version >/dev/null </dev/null || "
        "{{ echo cpprun-fanout noexec; exit 1; }}; "
        "trap - EXIT HUP INT TERM; exec \"$d/cpprun\" --fanout-child remove; ",
        own.bytes, own.sha256);
  }
  return script + "exit 1; }\n";
}

std::optional<BootstrapAnswer> read_bootstrap_answer(std::string_view line, const OwnBinary& own) {
  if (!line.starts_with(mark)) return std::nullopt;
  const auto word = line.substr(mark.size());
  if (word == "ready") return ShellIsReady{};
  if (word == "send") return BinaryWanted{};
  if (word == "none") {
    return ShellRefuses{fmt::format("no {} at {} or on PATH; install it there, or use --ship",
                                    own.program, own.path)};
  }
  if (word.starts_with("other ")) {
    return ShellRefuses{fmt::format(
        "another {} is installed ({}), but this machine has {}; install the same version, or use "
        "--ship",
        own.program, plain_line(word.substr(6)), own.version)};
  }
  if (word == "broken")
    return ShellRefuses{"the copied program is incomplete, or sha256sum is not installed"};
  if (word == "noplace")
    return ShellRefuses{"--ship: cannot create a directory in $TMPDIR or /tmp"};
  if (word == "noexec") {
    return ShellRefuses{
        "the copied program cannot be executed: wrong processor architecture, or $TMPDIR is "
        "mounted noexec"};
  }
  return std::nullopt;
}

namespace {

constexpr std::array<std::string_view, 19> passed_prefixes = {
    "NCCL_",   "GLOO_",     "TORCH_",  "PYTORCH_", "PYTHON",     "OMP_",           "MKL_",
    "KMP_",    "OPENBLAS_", "UCX_",    "FI_",      "HSA_",       "TORCHINDUCTOR_", "TRITON_",
    "HF_HOME", "LC_",       "CUBLAS_", "CUDNN_",   "TENSORPIPE_"};
constexpr std::array<std::string_view, 8> passed_names = {
    "PATH", "LD_LIBRARY_PATH", "LANG", "TZ", "VIRTUAL_ENV", "CONDA_PREFIX", "CUDA_HOME", "HF_HOME"};
// Valid on a single host only.
constexpr std::array<std::string_view, 4> kept_back = {"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME",
                                                       "NCCL_IB_HCA", "TORCHELASTIC_RUN_ID"};

template <class List>
bool lists(const List& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

bool is_passed(std::string_view name) {
  if (lists(kept_back, name)) return false;
  return lists(passed_names, name) ||
         std::any_of(passed_prefixes.begin(), passed_prefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

// cpprun's own settings, which the console passes as flags.
bool is_setting(std::string_view name) {
  return name.starts_with("PET_") || name == "CPPRUN_CONFIG" || name == "CPPRUN_SECRET_FILE" ||
         name == "CPPRUN_LOG_LEVEL";
}

}  // namespace

std::vector<std::string> agent_words(const JobTerms& job, const Member& self, const Begin& begin) {
  auto words = job.flags;
  if (self.slots > 0) words.push_back(fmt::format("--nproc-per-node={}", self.slots));
  if (!job.nodes.empty()) {
    words.push_back("--nnodes=" + job.nodes);
    if (job.elastic) {
      const bool is_host = self.number == begin.master;
      const bool is_v6 = begin.address.find(':') != std::string::npos;
      words.emplace_back("--rdzv-backend=c10d");
      words.push_back(is_v6 ? fmt::format("--rdzv-endpoint=[{}]:{}", begin.address, begin.port)
                            : fmt::format("--rdzv-endpoint={}:{}", begin.address, begin.port));
      words.push_back(fmt::format("--rdzv-conf={}{}is_host={}", job.conf,
                                  job.conf.empty() ? "" : ",", is_host));
    } else {
      words.push_back(fmt::format("--node-rank={}", self.number));
      words.push_back("--master-addr=" + begin.address);
      words.push_back(fmt::format("--master-port={}", begin.port));
    }
  }
  words.insert(words.end(), job.program.begin(), job.program.end());
  return words;
}

Environment agent_environment(const JobTerms& job, Environment own) {
  std::erase_if(own, [](const auto& each) { return is_setting(each.first); });
  for (const auto& [name, value] : job.environment) {
    std::string& place = own[name];
    place = name == "PATH" && !place.empty() ? value + ":" + place : value;
  }
  return own;
}

Result<Environment> passed_environment(const Environment& own, std::string_view exported) {
  Environment passed;
  for (const auto& [name, value] : own) {
    if (is_passed(name)) passed[name] = value;
  }
  if (exported.empty()) return passed;
  for (const auto part : split(exported, ',')) {
    const auto equals = part.find('=');
    const std::string name(trimmed(part.substr(0, equals)));
    if (name.empty())
      return failure(fmt::format("\"{}\" is not a variable name", plain_line(part)));
    if (equals != part.npos) {
      passed[name] = part.substr(equals + 1);
    } else if (const auto* value = find_variable(own, name)) {
      passed[name] = *value;
    } else {
      return failure(
          fmt::format("{} is not set here; use {}=VALUE", plain_line(name), plain_line(name)));
    }
  }
  return passed;
}

std::vector<std::string> shell_words(const std::vector<std::string>& shell,
                                     const std::string& host) {
  constexpr std::string_view place = "{host}";
  auto words = shell;
  bool named = false;
  for (auto& word : words) {
    for (auto at = word.find(place); at != word.npos; at = word.find(place, at + host.size())) {
      word.replace(at, place.size(), host);
      named = true;
    }
  }
  if (!named) words.push_back(host);
  words.emplace_back("sh");
  return words;
}

}  // namespace cpprun::fanout
