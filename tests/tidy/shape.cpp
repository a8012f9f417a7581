// SPDX-License-Identifier: BSD-3-Clause
#include "tests/tidy/shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace cpprun::tidy {

namespace {

int count_lines(std::string_view text) {
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

// Columns as a reader counts them: a character of several bytes is one.
int columns_of(std::string_view line) {
  return static_cast<int>(std::count_if(line.begin(), line.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

bool is_document(std::string_view path) {
  return path.ends_with(".md");
}

// What stands before a brace decides what the brace opens.
bool opens_scope(std::string_view head) {
  const auto begin = head.find_first_not_of(" \n");
  if (begin == std::string_view::npos) return false;
  head.remove_prefix(begin);
  for (const std::string_view word :
       {"namespace", "class", "struct", "enum", "union", "extern", "template <", "export"}) {
    if (!head.starts_with(word)) continue;
    if (word != "template <") return true;
    // A template is a scope when it is a class; its own <class T> does not count.
    return head.find("> class ") != std::string_view::npos ||
           head.find(">\nclass ") != std::string_view::npos ||
           head.find("> struct ") != std::string_view::npos ||
           head.find(">\nstruct ") != std::string_view::npos;
  }
  return false;
}

// Follows braces; a function is the outermost brace after a parameter list.
class BraceReader {
 public:
  explicit BraceReader(const Source& source)
      : source_(source), code_(without_directives(code_of(source.text))) {}

  std::vector<Violation> read() {
    for (std::size_t i = 0; i < code_.size(); ++i) {
      const char c = code_[i];
      if (c == '\n') ++line_;
      if (c == '{') open(i);
      if (c == '}') close(i);
      if (c == ';') head_begin_ = i + 1;
    }
    return std::move(pending_failures_);
  }

 private:
  void open(std::size_t at) {
    const auto head = std::string_view(code_).substr(head_begin_, at - head_begin_);
    ++depth_;
    head_begin_ = at + 1;
    if (function_depth_) return;
    if (opens_scope(head) || head.find(')') == std::string_view::npos) return;
    function_depth_ = depth_;
    function_line_ = line_;
  }

  void close(std::size_t at) {
    if (function_depth_ == depth_) {
      const int length = line_ - function_line_ + 1;
      if (length > function_lines_max) {
        pending_failures_.push_back(
            {source_.path, function_line_,
             fmt::format("a function of {} lines, the limit is {}", length, function_lines_max),
             "let it branch and give the steps to functions of their own"});
      }
      function_depth_.reset();
    }
    --depth_;
    head_begin_ = at + 1;
  }

  const Source& source_;
  std::string code_;
  int line_ = 1;
  int depth_ = 0;
  std::optional<int> function_depth_;  // the depth of the function's own brace
  int function_line_ = 0;
  std::size_t head_begin_ = 0;  // where the text before the next brace begins
  std::vector<Violation> pending_failures_;
};

// The first quoted text after `at`, without its quotes.
std::string_view quoted_after(std::string_view line, std::size_t at) {
  const auto open = line.find('"', at);
  if (open == std::string_view::npos) return {};
  const auto close = line.find('"', open + 1);
  return line.substr(open + 1, close == std::string_view::npos ? close : close - open - 1);
}

}  // namespace

std::vector<Violation> check_length(const Source& source) {
  std::vector<Violation> violations;
  if (is_document(source.path)) return violations;
  if (const int lines = count_lines(source.text); lines > file_lines_max) {
    violations.push_back({source.path, 0,
                          fmt::format("a file of {} lines, the limit is {}", lines, file_lines_max),
                          "is there a second noun inside?"});
  }
  int number = 0;
  for (const auto line : lines_of(source.text)) {
    ++number;
    const int columns = columns_of(line);
    if (columns <= line_columns_max) continue;
    violations.push_back(
        {source.path, number,
         fmt::format("a line of {} columns, the limit is {}", columns, line_columns_max),
         "break it where the thought breaks"});
  }
  return violations;
}

std::vector<Violation> check_functions(const Source& source) {
  if (!is_cpp(source.path)) return {};
  return BraceReader(source).read();
}

std::vector<Violation> check_line_ends(const Source& source) {
  std::vector<Violation> violations;
  int number = 0;
  for (const auto line : lines_of(source.text)) {
    ++number;
    if (line.ends_with(' ') || line.ends_with('\t') || line.ends_with('\r')) {
      violations.push_back({source.path, number, "blanks at the end of a line", "remove them"});
    }
    if (line.find('\t') != std::string_view::npos) {
      violations.push_back({source.path, number, "a tab", "write spaces, or \\t in a literal"});
    }
  }
  if (!source.text.empty() && (!source.text.ends_with('\n') || source.text.ends_with("\n\n"))) {
    violations.push_back({source.path, number, "the file does not end in exactly one line break",
                          "end the last line, and no more"});
  }
  return violations;
}

std::vector<Violation> check_license_tag(const Source& source) {
  if (is_document(source.path)) return {};
  const bool slashes = is_cpp(source.path) || source.path.ends_with(".c");
  // In two halves, so that what looks for tags does not take this for one.
  const std::string tag =
      std::string(slashes ? "//" : "#") + " SPDX-License-" + "Identifier: BSD-3-Clause";
  const auto lines = lines_of(source.text);
  const std::size_t at = source.text.starts_with("#!") ? 1 : 0;
  if (at < lines.size() && lines[at] == tag) return {};
  return {{source.path, static_cast<int>(at + 1), "the source does not say its license",
           fmt::format("write \"{}\" there", tag)}};
}

std::vector<Violation> check_title(const Source& source) {
  if (!is_document(source.path)) return {};
  std::vector<Violation> violations;
  bool in_fence = false;
  int number = 0;
  for (const auto line : lines_of(source.text)) {
    ++number;
    if (line.starts_with("```")) in_fence = !in_fence;
    const bool title = !in_fence && line.starts_with("# ");
    if (title == (number == 1)) continue;
    violations.push_back({source.path, number,
                          title ? "a second title" : "the first line is not the title",
                          title ? "make it a section, ##" : "begin the document with \"# Title\""});
  }
  return violations;
}

std::vector<Violation> check_test_names(const Source& source) {
  if (!is_test(source.path) || !source.path.ends_with("_test.cpp")) return {};
  std::vector<Violation> violations;
  const std::string code = code_of(source.text);
  const auto code_lines = lines_of(code);
  const auto lines = lines_of(source.text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto at = code_lines[i].find("TEST_CASE(");
    if (at == std::string_view::npos) continue;
    auto name = quoted_after(lines[i], at);
    // The formatter may have moved the name to the next line.
    if (name.empty() && i + 1 < lines.size()) name = quoted_after(lines[i + 1], 0);
    if (std::count(name.begin(), name.end(), ' ') >= 2) continue;
    violations.push_back({source.path, static_cast<int>(i + 1),
                          fmt::format("the test name \"{}\" is no sentence", name),
                          "say what happens, and when"});
  }
  return violations;
}

}  // namespace cpprun::tidy
