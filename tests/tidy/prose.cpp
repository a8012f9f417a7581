// SPDX-License-Identifier: BSD-3-Clause
#include "tests/tidy/prose.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "tests/tidy/figures.h"

namespace cpprun::tidy {

namespace {

struct Phrase {
  std::string_view text;  // in small letters
  std::string_view instead;
};

constexpr std::string_view person = "name it: the client, the node, the leader, the user";
constexpr std::string_view nobody = "no client, no node";
constexpr std::string_view which = "name it, or make it two sentences";
constexpr std::string_view restarts = "restarts";
constexpr std::string_view resumes = "resumes, continues";
constexpr std::string_view receives = "receives, is sent, is reported";
constexpr std::string_view heartbeat = "heartbeat, sent a heartbeat";
constexpr std::string_view longer = "no longer, lost, exited";
constexpr std::string_view standby = "is a standby";
constexpr std::string_view excluded = "excluded, rejected";
constexpr std::string_view hint = "hint";
constexpr std::string_view command = "command, request";
constexpr std::string_view missing = "not found, invalid, not a number";
constexpr std::string_view directory = "directory";

constexpr std::array phrases = {
    Phrase{"whoever", person},
    Phrase{"whomever", person},
    Phrase{"nobody", nobody},
    Phrase{"somebody", person},
    Phrase{"everybody", "all nodes, all clients"},
    Phrase{"anybody", person},
    Phrase{"the one that", which},
    Phrase{"the one at", which},
    Phrase{"the one of", which},
    Phrase{"the one who", which},
    Phrase{"the one which", which},
    Phrase{"one that", which},
    Phrase{"one which", which},
    Phrase{"leads no more", "lost leadership"},
    Phrase{"begun anew", restarts},
    Phrase{"begin anew", restarts},
    Phrase{"begins anew", restarts},
    Phrase{"began anew", restarts},
    Phrase{"goes on with", resumes},
    Phrase{"go on with", resumes},
    Phrase{"came to its end", "exited"},
    Phrase{"is told", receives},
    Phrase{"was told", receives},
    Phrase{"were told", receives},
    Phrase{"be told", receives},
    Phrase{"are told", receives},
    Phrase{"hears", receives},
    Phrase{"has a word with", "sends a message to"},
    Phrase{"no word from", "no message from"},
    Phrase{"its last words", "its last output"},
    Phrase{"may look", "has read access"},
    Phrase{"may give orders", "has control access"},
    Phrase{"has beaten", heartbeat},
    Phrase{"beaten for", heartbeat},
    Phrase{"beat", heartbeat},
    Phrase{"beats", heartbeat},
    Phrase{"what helps", hint},
    Phrase{"cure", hint},
    Phrase{"cures", hint},
    Phrase{"a purse", "a budget for each cause"},
    Phrase{"in vain", "failed"},
    Phrase{"is there still", "still exists"},
    Phrase{"is there no more", "no longer exists"},
    Phrase{"any more", longer},
    Phrase{"no more", longer},
    Phrase{"stand by", standby},
    Phrase{"stands by", standby},
    Phrase{"stood by", standby},
    Phrase{"farewell", "resignation"},
    Phrase{"heir", "successor"},
    Phrase{"patience", "timeout"},
    Phrase{"dismissed", excluded},
    Phrase{"left out", excluded},
    Phrase{"turned away", excluded},
    Phrase{"wish", command},
    Phrase{"wishes", command},
    Phrase{"is not there", missing},
    Phrase{"are not there", missing},
    Phrase{"is no number", missing},
    Phrase{"folder", directory},
    Phrase{"folders", directory},
};

bool is_letter(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0;
}

// As in \b of a regular expression.
bool in_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

bool counts(std::string_view path) {
  // The list of these words, and tests of it, contain them.
  if (path.starts_with("tests/tidy/") || path == "tests/tidy_rules_test.cpp") return false;
  if (path == "CHANGELOG.md" || path == "NOTICE.md") return false;
  return is_cpp(path) || path.ends_with(".md");
}

// Of a page all, of C++ the comments and the insides of literals; in small letters, in place.
std::string prose_in(const Source& source) {
  std::string text = source.path.ends_with(".md") ? source.text : prose_of(source.text);
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// A part of a name, `--beat-timeout`, `x/wish.h` or `beat()`, or a name alone, "dismissed".
bool is_name_part(std::string_view text, std::size_t begin, std::size_t end) {
  const char before = begin == 0 ? ' ' : text[begin - 1];
  const char after = end >= text.size() ? ' ' : text[end];
  const char next = end + 1 >= text.size() ? ' ' : text[end + 1];
  if (before == '-' || before == '.' || before == '/') return true;
  if (after == '(' || after == '-' || after == '/' || (after == '.' && in_word(next))) return true;
  return before == after && (before == '"' || before == '`');
}

// The phrase that begins at `at`, or null.
const Phrase* phrase_at(std::string_view prose, std::string_view text, std::size_t at) {
  for (const auto& phrase : phrases) {
    const auto end = at + phrase.text.size();
    if (!prose.substr(at).starts_with(phrase.text)) continue;
    if (end < prose.size() && in_word(prose[end])) continue;
    return is_name_part(text, at, end) ? nullptr : &phrase;
  }
  return nullptr;
}

int count_words(std::string_view prose) {
  int words = 0;
  bool inside = false;
  for (const char c : prose) {
    const bool letter = is_letter(c) || c == '\'';
    if (letter && !inside) ++words;
    inside = letter;
  }
  return words;
}

}  // namespace

std::vector<Violation> words_to_avoid_in(const Source& source) {
  std::vector<Violation> violations;
  if (!counts(source.path)) return violations;
  const std::string prose = prose_in(source);
  int line = 1;
  for (std::size_t at = 0; at < prose.size(); ++at) {
    if (prose[at] == '\n') ++line;
    if (!is_letter(prose[at]) || (at > 0 && in_word(prose[at - 1]))) continue;
    const auto* phrase = phrase_at(prose, source.text, at);
    if (phrase == nullptr) continue;
    at += phrase->text.size() - 1;  // no other word to avoid begins within this one
    violations.push_back({source.path, line, fmt::format("\"{}\" is a word to avoid", phrase->text),
                          fmt::format("instead: {}", phrase->instead)});
  }
  return violations;
}

std::map<std::string, ProseFigures> prose_figures_of(const Tree& tree) {
  std::map<std::string, ProseFigures> rooms;
  for (const auto& source : tree) {
    if (!counts(source.path)) continue;
    auto& figures = rooms[room_with_figures(source.path)];
    figures.found += static_cast<int>(words_to_avoid_in(source).size());
    figures.words += count_words(prose_in(source));
  }
  return rooms;
}

std::string to_text(const std::map<std::string, ProseFigures>& rooms) {
  ProseFigures all;
  for (const auto& [room, figures] : rooms) {
    all.found += figures.found;
    all.words += figures.words;
  }
  return fmt::format("words to avoid in comments, strings and docs: {}, {:.1f} per 10,000\n",
                     all.found, all.per_10000());
}

}  // namespace cpprun::tidy
