// SPDX-License-Identifier: BSD-3-Clause
#include "tests/tidy/guide.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <string>

namespace cpprun::tidy {

namespace {

constexpr std::string_view page_path = "docs/troubleshooting.md";
constexpr std::size_t words_min = 4;  // fewer are a part of a sentence

// A file that speaks of the set-up; or one that speaks of more, and how those sentences begin.
struct Speaker {
  std::string_view path;
  std::string_view beginning = {};
};

constexpr std::array speakers = {
    Speaker{"launcher/plan/meeting_place.cpp"},
    Speaker{"launcher/agent/misconfiguration.cpp"},
    Speaker{"launcher/plan/interfaces.cpp"},
    Speaker{"launcher/agent/agent_text.cpp", "; the port belongs to the master"},
    Speaker{"rendezvous/client/io/link_client.cpp"},
    Speaker{"proto/text.cpp", "connection refused"},
    Speaker{"proto/text.cpp", "; check the address"},
    Speaker{"rendezvous/job/job_terms.cpp"},
    Speaker{"rendezvous/job/job_texts.cpp", "… has two masters"},
    Speaker{"rendezvous/coordinator/coordinator.cpp", "this master runs job"},
    Speaker{"rendezvous/coordinator/coordinator.cpp", "this daemon"},
    Speaker{"rendezvous/coordinator/job_table.cpp", "job \"…\" was dropped"},
    Speaker{"rendezvous/coordinator/job_table.cpp", "… already has … unfinished jobs"},
    Speaker{"rendezvous/daemon/service.cpp", "cannot tell which sockets"},
    Speaker{"rendezvous/daemon/service.cpp", "ignoring LISTEN_FDS"},
    Speaker{"rendezvous/daemon/service.cpp", "cannot serve on"},
    Speaker{"rendezvous/daemon/service.cpp", "start cpprund with"},
    Speaker{"rendezvous/daemon/service.cpp", "set Accept=no"},
    Speaker{"rendezvous/daemon/service.cpp", "write ListenStream="},
    Speaker{"rendezvous/daemon/service.cpp", "set ListenStream="},
    Speaker{"launcher/plan/devices.cpp"},
    Speaker{"launcher/plan/program.cpp"},
    Speaker{"rendezvous/io/secret_file.cpp"},
    Speaker{"rendezvous/endpoint.cpp"},
    Speaker{"launcher/config.cpp"},
    Speaker{"launcher/cli/cli.cpp"},
    Speaker{"launcher/cli/config_file.cpp"},
    Speaker{"launcher/cli/settings.cpp"},
    Speaker{"launcher/cli/rendezvous_settings.cpp"},
    Speaker{"launcher/cli/flags.cpp"},
};

std::size_t words_in(const std::string& text) {
  std::istringstream stream(text);
  std::size_t count = 0;
  for (std::string word; stream >> word;) ++count;
  return count;
}

// Escapes undone, fields replaced.
std::string as_read(std::string_view literal) {
  std::string text;
  for (std::size_t at = 0; at < literal.size(); ++at) {
    if (literal[at] == '\\' && at + 1 < literal.size()) {
      const char escaped = literal[++at];
      text += escaped == 'n' ? ' ' : escaped;
    } else if (literal[at] == '{') {
      at = std::min(literal.find('}', at), literal.size() - 1);
      text += "…";
    } else {
      text += literal[at];
    }
  }
  return text;
}

// One space for every gap, and no marks of a quotation.
std::string flowing(std::string_view page) {
  std::string text;
  for (const auto line : lines_of(page)) {
    std::istringstream stream{std::string(line.substr(line.starts_with("> ") ? 2 : 0))};
    for (std::string word; stream >> word;) {
      if (word != "·") text += word + " ";  // in a table, it stands for the line of the hint
    }
  }
  return text;
}

std::string trimmed(std::string text) {
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text.substr(std::min(text.find_first_not_of(' '), text.size()));
}

}  // namespace

std::vector<std::string> sentences_of(std::string_view text) {
  const std::string code = code_of(text);
  std::vector<std::string> sentences;
  std::string joined;
  const auto finish = [&] {
    if (words_in(joined) >= words_min) sentences.push_back(joined);
    joined.clear();
  };
  bool directive = false;
  for (std::size_t at = 0; at < code.size(); ++at) {
    const bool line_begins = at == 0 || code[at - 1] == '\n';
    if (line_begins) directive = code[at] == '#';
    if (code[at] == '"' && !directive) {
      const auto end = std::min(code.find('"', at + 1), code.size());
      joined += as_read(text.substr(at + 1, end - at - 1));
      at = end;
    } else if (code[at] != ' ' && code[at] != '\n') {
      finish();
    }
  }
  finish();
  return sentences;
}

std::vector<Violation> check_troubleshooting(const Tree& tree) {
  std::vector<Violation> violations;
  const auto* page = source_at(tree, page_path);
  const std::string told = page == nullptr ? "" : flowing(page->text);
  for (const auto& speaker : speakers) {
    const auto* source = source_at(tree, speaker.path);
    if (source == nullptr) continue;  // check_named_files reports it
    bool spoke = false;
    for (const std::string& sentence : sentences_of(source->text)) {
      if (!sentence.starts_with(speaker.beginning)) continue;
      spoke = true;
      if (told.find(trimmed(flowing(sentence))) != std::string::npos) continue;
      violations.push_back({source->path, 0, fmt::format("says \"{}\"", sentence),
                            fmt::format("tell in {} what it means and what helps", page_path)});
    }
    if (spoke) continue;
    violations.push_back({source->path, 0, fmt::format("does not say \"{}…\"", speaker.beginning),
                          "correct the list in tests/tidy/guide.cpp"});
  }
  return violations;
}

}  // namespace cpprun::tidy
