// SPDX-License-Identifier: BSD-3-Clause
#include "tests/tidy/classes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <utility>

namespace cpprun::tidy {

namespace {

constexpr std::string_view list_path = "tests/tidy/fragments.txt";

struct Token {
  std::string_view text;  // an identifier (with its ~), "::", or one other character
  int line = 0;
};

bool is_name(std::string_view text) {
  return std::isalnum(static_cast<unsigned char>(text.front())) != 0 || text.front() == '_' ||
         text.front() == '~';
}

std::vector<Token> tokens_of(std::string_view code) {
  std::vector<Token> tokens;
  int line = 1;
  for (std::size_t at = 0; at < code.size();) {
    if (code[at] == '\n') ++line;
    std::size_t end = at + 1;
    if (is_name(code.substr(at))) {
      while (end < code.size() && code[end] != '~' && is_name(code.substr(end))) ++end;
    } else if (code.substr(at).starts_with("::")) {
      ++end;
    }
    const auto text = code.substr(at, end - at);
    if (std::isspace(static_cast<unsigned char>(code[at])) == 0) tokens.push_back({text, line});
    at = end;
  }
  return tokens;
}

// The tokens before a brace or a semicolon, without attributes and template arguments, so that
// `template <class T> [[nodiscard]] A<T>::B A<T>::f` becomes `template A::B A::f`.
using Head = std::vector<Token>;

Head plain(const Head& head) {
  Head kept;
  int depth = 0;
  bool in_operator = false;
  for (std::size_t i = 0; i < head.size(); ++i) {
    const auto text = head[i].text;
    if (text == "operator") in_operator = true;
    if (text == "(") in_operator = false;
    const bool arrow = text == ">" && i > 0 && head[i - 1].text == "-";
    const bool opens = text == "<" || text == "[";
    const bool closes = (text == ">" && !arrow) || text == "]";
    if (opens && !in_operator) ++depth;
    if (depth == 0) kept.push_back(head[i]);
    if (closes && !in_operator) depth = std::max(0, depth - 1);
  }
  return kept;
}

// The name after a word like `class` at `at`, behind macros: "A", "A::B", or nothing.
std::string name_after(const Head& head, std::size_t at) {
  std::string name;
  for (++at; at < head.size(); ++at) {
    const auto text = head[at].text;
    if (text != "::" && (!is_name(text) || text == "final")) break;
    if (text != "::" && !name.ends_with("::")) name.clear();
    name += text;
  }
  return name;
}

// The same for `namespace`; an inline one does not count. What has no name is known in its file
// alone.
std::string space_after(const Head& head, std::size_t at, const std::string& file) {
  if (at > 0 && head[at - 1].text == "inline") return {};
  if (at + 1 == head.size()) return file;
  const auto is_inline = [](const Token& token) { return token.text == "inline"; };
  std::string name =
      name_after({head.begin(), std::find_if(head.begin(), head.end(), is_inline)}, at);
  if (name.ends_with("::")) name.resize(name.size() - 2);
  return name;
}

// The class that the brace after this head opens, or nothing.
std::string class_of(const Head& head) {
  for (std::size_t i = 0; i < head.size(); ++i) {
    const auto text = head[i].text;
    if (text == "(" || text == "=" || text == "enum") return {};
    if (text != "class" && text != "struct" && text != "union") continue;
    const bool function = std::any_of(head.begin() + static_cast<std::ptrdiff_t>(i), head.end(),
                                      [](const Token& token) { return token.text == "("; });
    return function ? "" : name_after(head, i);
  }
  return {};
}

// The class whose method this head begins, `A::B` of `C::D A::B::f(`, or nothing.
std::string owner_in(const Head& head) {
  if (head.empty() || head.front().text == "," || head.front().text == ":") return {};
  std::size_t end = 0;  // of the qualifier and its "::"
  for (; end < head.size(); ++end) {
    const auto text = head[end].text;
    if (text == "operator" || text == "(") break;
    if (text == "=") return {};
  }
  if (end < head.size() && head[end].text == "(" && end > 0) --end;  // the name of the method
  std::string owner;
  while (end >= 2 && head[end - 1].text == "::" && is_name(head[end - 2].text)) {
    owner = std::string(head[end - 2].text) + (owner.empty() ? "" : "::") + owner;
    end -= 2;
  }
  return owner;
}

struct Method {
  std::string owner;  // with its namespaces
  std::string shown;  // without
  int line = 0;
};

// Follows namespaces and classes through a file; the inside of a function is skipped.
class ScopeReader {
 public:
  explicit ScopeReader(const Source& source)
      : path_(source.path), code_(without_directives(code_of(source.text))) {}

  void read() {
    for (const auto& token : tokens_of(code_)) {
      if (token.text == "{") {
        open();
      } else if (token.text == "}") {
        close();
      } else if (token.text == ";") {
        end_declaration();
      } else {
        head_.push_back(token);
      }
    }
  }

  std::vector<std::string> classes;  // that are defined here, with their namespaces
  std::vector<Method> methods;       // that are defined here outside of their class

 private:
  enum class Kind { space, type, body, initializer };
  struct Scope {
    Kind kind;
    std::string name;
    Head head;  // resumed after an initializer
  };

  bool in_body() const {
    return !scopes_.empty() &&
           (scopes_.back().kind == Kind::body || scopes_.back().kind == Kind::initializer);
  }

  void open() {
    Scope scope = in_body() ? Scope{Kind::body, "", {}} : scope_of(plain(head_));
    if (scope.kind == Kind::type) classes.push_back(full_name(scope.name));
    scopes_.push_back(std::move(scope));
    head_.clear();
  }

  void close() {
    head_.clear();
    if (scopes_.empty()) return;
    if (scopes_.back().kind == Kind::initializer) head_ = std::move(scopes_.back().head);
    scopes_.pop_back();
  }

  void end_declaration() {
    const Head head = plain(head_);
    const bool defaulted = head.size() > 2 && head.back().text == "default";
    if (!in_body() && defaulted) add_method(head);
    head_.clear();
  }

  Scope scope_of(const Head& head) {
    int parentheses = 0;
    for (const auto& token : head) {
      parentheses += token.text == "(" ? 1 : token.text == ")" ? -1 : 0;
    }
    if (parentheses > 0) return {Kind::initializer, "", head_};
    for (std::size_t i = 0; i < head.size() && i < 2; ++i) {
      if (head[i].text != "namespace") continue;
      return {Kind::space, space_after(head, i, path_), {}};
    }
    if (!head.empty() && head.front().text == "extern" && head.size() <= 3) {
      return {Kind::space, "", {}};
    }
    if (const std::string name = class_of(head); !name.empty()) return {Kind::type, name, {}};
    add_method(head);
    return {Kind::body, "", {}};
  }

  void add_method(const Head& head) {
    const std::string owner = owner_in(head);
    if (!owner.empty()) methods.push_back({full_name(owner), owner, head.front().line});
  }

  std::string full_name(const std::string& inner) const {
    std::string name;
    for (const auto& scope : scopes_) name += scope.name.empty() ? "" : scope.name + "::";
    return name + inner;
  }

  std::string path_;
  std::string code_;
  Head head_;
  std::vector<Scope> scopes_;
};

// "room/x.h" is the header of room/x.cpp and of room/io/x.cpp, "room/io/x.h" of room/x.cpp too.
std::string without_io(std::string_view path) {
  std::string stem(path.substr(0, path.rfind('.')));
  if (const auto at = stem.rfind("/io/"); at != std::string::npos) stem.erase(at, 3);
  return stem;
}

Violation misplaced(const std::string& path, const Method& method, const std::string& home) {
  const std::string source = home.ends_with(".h") ? home.substr(0, home.size() - 2) + ".cpp" : home;
  return {path, method.line,
          fmt::format("a method of {} is defined here, and the class in {}", method.shown, home),
          fmt::format("move it to {}: a class is one header and one source", source)};
}

}  // namespace

std::vector<Violation> check_methods(const Tree& tree) {
  std::map<std::string, std::set<std::string>> homes;  // of each class: the files that define it
  std::map<std::string, std::vector<Method>> methods;  // of each file
  for (const auto& source : tree) {
    if (!is_cpp(source.path) || !is_product(source.path)) continue;
    ScopeReader reader(source);
    reader.read();
    for (const auto& name : reader.classes) homes[name].insert(source.path);
    methods[source.path] = std::move(reader.methods);
  }
  const auto* list = source_at(tree, list_path);
  const auto rows = list == nullptr ? std::vector<Row>{} : rows_of(list->text);
  std::vector<Violation> violations;
  std::set<std::vector<std::string>> fragments;
  for (const auto& [path, defined] : methods) {
    for (const auto& method : defined) {
      const auto home = homes.find(method.owner);
      if (home == homes.end()) continue;
      const auto fits = [&path](const std::string& file) {
        return without_io(file) == without_io(path);
      };
      if (std::any_of(home->second.begin(), home->second.end(), fits)) continue;
      if (!fragments.insert({path, method.shown}).second) continue;
      const auto listed = [&](const Row& row) {
        return row.words == std::vector{path, method.shown};
      };
      if (std::any_of(rows.begin(), rows.end(), listed)) continue;
      violations.push_back(misplaced(path, method, *home->second.begin()));
    }
  }
  for (const auto& row : rows) {
    if (fragments.contains(row.words)) continue;
    violations.push_back({std::string(list_path), row.line,
                          fmt::format("no file and class match \"{}\"", fmt::join(row.words, " ")),
                          "remove this line"});
  }
  return violations;
}

}  // namespace cpprun::tidy
