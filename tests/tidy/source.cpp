// SPDX-License-Identifier: BSD-3-Clause
#include "tests/tidy/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <sstream>

namespace cpprun::tidy {

namespace {

enum class Part { code, line_comment, block_comment, text, character, raw_text, directive };

// Walks C++ far enough to tell code, comments and literals apart.
class Splitter {
 public:
  explicit Splitter(std::string_view text) : text_(text) {}

  // Every character that `keep` does not want becomes a space; line breaks always stay.
  template <class Keep>
  std::string split(Keep keep) {
    std::string kept;
    kept.reserve(text_.size());
    for (at_ = 0; at_ < text_.size(); ++at_) {
      const Part part = step();
      const char c = text_[at_];
      kept.push_back(c == '\n' || keep(part) ? c : ' ');
    }
    return kept;
  }

 private:
  // The part that the character at `at_` belongs to; delimiters of literals count as code.
  Part step() {
    const char c = text_[at_];
    switch (part_) {
      case Part::code:
      case Part::directive:
        return step_code(c);
      case Part::line_comment:
        if (c == '\n') part_ = Part::code;
        return Part::line_comment;
      case Part::block_comment:
        if (c == '/' && previous() == '*' && at_ > comment_began_ + 2) return leave();
        return Part::block_comment;
      case Part::text:
      case Part::character:
        return step_literal(c);
      case Part::raw_text:
        if (c == '"' && text_.substr(0, at_).ends_with(raw_end_)) part_ = Part::code;
        return part_;
    }
    return part_;
  }

  Part step_code(char c) {
    if (c == '\n') return part_ = Part::code;
    if (c == '/' && next() == '/') return part_ = Part::line_comment;
    if (c == '/' && next() == '*') {
      comment_began_ = at_;
      return part_ = Part::block_comment;
    }
    if (part_ == Part::directive) return part_;
    if (c == '#' && only_blanks_before()) return part_ = Part::directive;
    if (c == '"') return open_text();
    // 1'000 holds no character literal.
    if (c == '\'' && std::isalnum(static_cast<unsigned char>(previous())) == 0) {
      part_ = Part::character;
    }
    return Part::code;
  }

  Part open_text() {
    if (previous() != 'R') {
      part_ = Part::text;
      return Part::code;
    }
    const auto open = text_.find('(', at_);
    raw_end_ = ")" + std::string(text_.substr(at_ + 1, open - at_ - 1));
    part_ = Part::raw_text;
    return Part::code;
  }

  Part step_literal(char c) {
    if (escaped_) {
      escaped_ = false;
      return part_;
    }
    escaped_ = c == '\\';
    if (c == (part_ == Part::text ? '"' : '\'') || c == '\n') {
      part_ = Part::code;
      return Part::code;
    }
    return part_;
  }

  // The last character of a comment is still part of it.
  Part leave() {
    part_ = Part::code;
    return Part::block_comment;
  }

  char previous() const { return at_ == 0 ? '\n' : text_[at_ - 1]; }
  char next() const { return at_ + 1 < text_.size() ? text_[at_ + 1] : '\n'; }
  bool only_blanks_before() const {
    const auto line = text_.substr(0, at_);
    return line.find_last_not_of(" \t") == std::string_view::npos ||
           line[line.find_last_not_of(" \t")] == '\n';
  }

  std::string_view text_;
  std::size_t at_ = 0;
  Part part_ = Part::code;
  bool escaped_ = false;
  std::size_t comment_began_ = 0;
  std::string raw_end_;  // what closes the raw literal, without its last quote
};

}  // namespace

const Source* source_at(const Tree& tree, std::string_view path) {
  const auto found = std::find_if(tree.begin(), tree.end(),
                                  [path](const Source& source) { return source.path == path; });
  return found == tree.end() ? nullptr : &*found;
}

std::string to_text(const Violation& violation) {
  return fmt::format("{}:{}: {}; {}", violation.path, violation.line, violation.rule,
                     violation.cure);
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const auto end = text.find('\n');
    lines.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return lines;
}

std::vector<Row> rows_of(std::string_view text) {
  std::vector<Row> rows;
  int number = 0;
  for (const auto line : lines_of(text)) {
    Row row{++number, {}};
    std::istringstream stream{std::string(line.substr(0, line.find('#')))};
    for (std::string word; stream >> word;) row.words.push_back(word);
    if (!row.words.empty()) rows.push_back(std::move(row));
  }
  return rows;
}

std::string code_of(std::string_view text) {
  return Splitter(text).split(
      [](Part part) { return part == Part::code || part == Part::directive; });
}

std::string without_directives(std::string code) {
  std::size_t at = 0;
  bool continued = false;
  const std::string before = code;
  for (const auto line : lines_of(before)) {
    const auto first = line.find_first_not_of(' ');
    const bool directive = first != std::string_view::npos && line[first] == '#';
    if (directive || continued) code.replace(at, line.size(), line.size(), ' ');
    continued = (directive || continued) && line.ends_with('\\');
    at += line.size() + 1;
  }
  return code;
}

std::string comments_of(std::string_view text) {
  return Splitter(text).split(
      [](Part part) { return part == Part::line_comment || part == Part::block_comment; });
}

std::string prose_of(std::string_view text) {
  return Splitter(text).split([](Part part) {
    return part == Part::line_comment || part == Part::block_comment || part == Part::text ||
           part == Part::raw_text;
  });
}

bool is_cpp(std::string_view path) {
  return path.ends_with(".cpp") || path.ends_with(".h");
}

bool is_product(std::string_view path) {
  const auto room = room_of(path);
  return room == "proto" || room == "rendezvous" || room == "launcher" || room == "worker";
}

bool is_test(std::string_view path) {
  return path.starts_with("tests/");
}

bool is_program(std::string_view path) {
  return path == "launcher/cpprun.cpp" || path == "launcher/cpprunctl.cpp" ||
         path == "rendezvous/cpprund.cpp" || path.starts_with("worker/examples/");
}

bool in_io(std::string_view path) {
  return path.find("/io/") != std::string_view::npos;
}

bool touches_torch(std::string_view path) {
  return path.starts_with("worker/torch/") || path.starts_with("worker/examples/");
}

std::string_view room_of(std::string_view path) {
  return path.substr(0, path.find('/'));
}

std::string_view directory_of(std::string_view path) {
  return path.substr(0, path.rfind('/') + 1);  // npos + 1 is 0
}

}  // namespace cpprun::tidy
