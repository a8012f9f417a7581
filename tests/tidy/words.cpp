// SPDX-License-Identifier: BSD-3-Clause
#include "tests/tidy/words.h"

#include <fmt/format.h>

#include <array>
#include <cctype>

namespace cpprun::tidy {

namespace {

struct Word {
  std::string_view word;
  std::string_view cure;
};

constexpr std::array effect_words = {
    Word{"steady_clock::now", "take `TimePoint now` as an argument"},
    Word{"system_clock::now", "take a `WallTime` as an argument"},
    Word{"high_resolution_clock", "take `TimePoint now` as an argument"},
    Word{"clock_gettime", "take `TimePoint now` as an argument"},
    Word{"gettimeofday", "take a `WallTime` as an argument"},
    Word{"std::thread", "one thread per process; what truly needs one lives in io/"},
    Word{"std::jthread", "one thread per process; what truly needs one lives in io/"},
    Word{"std::async", "one thread per process; what truly needs one lives in io/"},
    Word{"std::mutex", "one thread per process; what truly needs one lives in io/"},
    Word{"setenv", "put it into the worker's plan"},
    Word{"std::cout", "return the text; io/ writes it"},
    Word{"std::cerr", "return the text; io/ writes it"},
    Word{"printf", "return the text; io/ writes it"},
    Word{"fprintf", "return the text; io/ writes it"},
    Word{"puts", "return the text; io/ writes it"},
    Word{"fmt::print", "return the text; io/ writes it"},
    Word{"std::random_device", "take the seed as an argument"},
    Word{"::socket", "return an action and let io/ perform it"},
    Word{"::fork", "return an action and let io/ perform it"},
    Word{"::kill", "return an action and let io/ perform it"},
    Word{"::write", "return an action and let io/ perform it"},
    Word{"::read", "take the bytes as an argument"},
    Word{"::open", "take the bytes as an argument"},
};

// In io/ as well: what is decided from and what workers are given shall be the same.
constexpr std::array environment_words = {
    Word{"getenv", "take the environment as a value"},
    Word{"secure_getenv", "take the environment as a value"},
    Word{"environ", "take the environment as a value"},
};

// In io/ a process without an event loop may pause, within a bound.
constexpr std::array sleep_words = {
    Word{"sleep_for", "a timer armed to next_deadline(); in a test, wait for what is to happen"},
    Word{"sleep_until", "a timer armed to next_deadline(); in a test, wait for what is to happen"},
    Word{"usleep", "a timer armed to next_deadline(); in a test, wait for what is to happen"},
    Word{"nanosleep", "a timer armed to next_deadline(); in a test, wait for what is to happen"},
};

constexpr std::array code_words = {
    Word{"using namespace std;", "write std:: where it is meant"},
    Word{"NULL", "nullptr"},
    Word{"std::endl", "'\\n'"},
    Word{"std::format", "fmt::format: the oldest compiler here has no other"},
    Word{"std::expected", "Result from proto/result.h"},
    Word{"std::bind", "a lambda"},
    Word{"sprintf", "fmt::format"},
    Word{"strcpy", "std::string"},
    Word{"strcat", "std::string"},
    Word{"system", "posix_spawn with an argument list: a shell reads more than was meant"},
    Word{"popen", "posix_spawn with an argument list: a shell reads more than was meant"},
};

// A test may trust its own numbers; what people and peers type is parsed aloud.
constexpr std::array parse_words = {
    Word{"atoi", "std::from_chars, and say what was wrong"},
    Word{"atol", "std::from_chars, and say what was wrong"},
    Word{"std::stoi", "std::from_chars, and say what was wrong"},
    Word{"std::stol", "std::from_chars, and say what was wrong"},
    Word{"Json::parse", "parse_json: nested without end, it would use up the stack"},
    Word{"json::parse", "parse_json: nested without end, it would use up the stack"},
};

// Written in two halves so that this file does not find itself.
constexpr std::array prose_words = {
    Word{"TO"
         "DO",
         "do it, or write why not in docs/decisions.md and name that file here"},
    Word{"FIX"
         "ME",
         "do it, or write why not in docs/decisions.md and name that file here"},
    Word{"XX"
         "X",
         "do it, or write why not in docs/decisions.md and name that file here"},
    Word{"HA"
         "CK",
         "say what it works around and why"},
    Word{"white"
         "list",
         "allowlist"},
    Word{"black"
         "list",
         "denylist"},
    Word{"sanity"
         " check",
         "name what is checked"},
    Word{"obvious"
         "ly",
         "leave it out: what is plain needs no word, what is not needs a reason"},
    Word{"util"
         "ize",
         "use"},
    Word{"lever"
         "age",
         "use"},
    Word{"seam"
         "lessly",
         "say what happens"},
    Word{"blazing"
         "ly",
         "give the number"},
    Word{"/wo"
         "rk/",
         "a path of one machine: give it as an argument or from the repository"},
    Word{"/ro"
         "ot/",
         "a path of one machine: give it as an argument or from the repository"},
    Word{"/ho"
         "me/",
         "a path of one machine: give it as an argument or from the repository"},
    Word{"pypi"
         ".org",
         "name the package, not a registry's host"},
    Word{"download.py"
         "torch.org",
         "name the package, not a registry's host"},
    Word{"deb.deb"
         "ian.org",
         "name the package, not a registry's host"},
};

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// Whole words only: `printf` is not found in `fprintf`, nor `read` in `thread`.
bool stands_alone(std::string_view line, std::size_t at, std::string_view word) {
  if (is_word(word.front()) && at > 0 && is_word(line[at - 1])) return false;
  // `a::open` is some namespace's own open; only the global one is meant by `::open`.
  if (word.starts_with("::") && at > 0 && (is_word(line[at - 1]) || line[at - 1] == '>')) {
    return false;
  }
  const auto after = at + word.size();
  return !is_word(word.back()) || after >= line.size() || !is_word(line[after]);
}

bool contains_word(std::string_view line, std::string_view word) {
  for (auto at = line.find(word); at != std::string_view::npos; at = line.find(word, at + 1)) {
    if (stands_alone(line, at, word)) return true;
  }
  return false;
}

template <class Words>
std::vector<Violation> find_words(const std::string& path, std::string_view text,
                                  const Words& words) {
  std::vector<Violation> violations;
  int number = 0;
  for (const auto line : lines_of(text)) {
    ++number;
    for (const auto& [word, cure] : words) {
      if (!contains_word(line, word)) continue;
      violations.push_back({path, number, fmt::format("\"{}\" stands here", word),
                            fmt::format("instead: {}", cure)});
    }
  }
  return violations;
}

// `system(` is the C function; `system_clock`, `<system_error>` and `machine.system` are not.
bool is_call(std::string_view line, std::string_view word) {
  const auto at = line.find(word);
  return at != std::string_view::npos && line.substr(at + word.size()).starts_with("(") &&
         (at == 0 || (line[at - 1] != '.' && line[at - 1] != '>'));
}

}  // namespace

std::vector<Violation> check_effect_words(const Source& source) {
  const auto& path = source.path;
  if (!is_cpp(path) || in_io(path) || is_program(path) || is_test(path) || touches_torch(path)) {
    return {};
  }
  return find_words(path, code_of(source.text), effect_words);
}

std::vector<Violation> check_environment_words(const Source& source) {
  const auto& path = source.path;
  // A library has no main.
  const bool may = is_program(path) || is_test(path) || touches_torch(path) ||
                   path == "worker/env/io/environment.h" ||
                   path == "launcher/embed/io/c_job.cpp";
  if (!is_cpp(path) || may) return {};
  return find_words(path, code_of(source.text), environment_words);
}

std::vector<Violation> check_code_words(const Source& source) {
  if (!is_cpp(source.path)) return {};
  const std::string code = code_of(source.text);
  const auto lines = lines_of(code);
  auto violations = find_words(source.path, code, code_words);
  std::erase_if(violations, [&lines](const Violation& violation) {
    const bool about_calls = violation.rule.find("\"system\"") != std::string::npos;
    return about_calls && !is_call(lines[static_cast<std::size_t>(violation.line - 1)], "system");
  });
  const auto add = [&violations](const std::vector<Violation>& more) {
    violations.insert(violations.end(), more.begin(), more.end());
  };
  const bool is_parser = source.path == "proto/parse_json.h";
  if (!is_test(source.path) && !is_parser) add(find_words(source.path, code, parse_words));
  // process_group.cpp waits for a thread of LibTorch, which says nothing.
  if (!in_io(source.path) && source.path != "worker/torch/group/process_group.cpp")
    add(find_words(source.path, code, sleep_words));
  return violations;
}

std::vector<Violation> check_prose_words(const Source& source) {
  auto violations = find_words(source.path, source.text, prose_words);
  const auto lines = lines_of(source.text);
  std::erase_if(violations, [&lines](const Violation& violation) {
    // A promise that has its entry may stay.
    return lines[static_cast<std::size_t>(violation.line - 1)].find("docs/decisions.md") !=
           std::string_view::npos;
  });
  return violations;
}

std::vector<Violation> check_io_namespace(const Source& source) {
  if (!is_cpp(source.path)) return {};
  // A header for C has no namespace.
  const bool is_at_home = in_io(source.path) && room_of(source.path) == "launcher" &&
                          source.path.find("/public/") == std::string::npos;
  const std::string code = code_of(source.text);
  bool opens = false;
  int line = 0;
  for (const auto text : lines_of(code)) {
    ++line;
    if (!text.starts_with("namespace io") && !text.starts_with("namespace cpprun::io")) continue;
    opens = true;
    if (is_at_home) continue;
    return {{source.path, line, "this is not what launcher/ does to the world, and says io",
             "namespace cpprun; io is for the io/ folders of launcher/ (docs/style.md, 2)"}};
  }
  if (opens || !is_at_home || !source.path.ends_with(".h")) return {};
  return {{source.path, 0, "an effect of launcher/ does not show where it is called",
           "declare it in namespace cpprun::io (docs/style.md, 2)"}};
}

std::vector<Violation> check_file_name(const Source& source) {
  constexpr std::array<std::string_view, 6> vague = {"util",    "utils",  "helper",
                                                     "helpers", "common", "misc"};
  const auto slash = source.path.rfind('/');
  const auto name = source.path.substr(slash == std::string::npos ? 0 : slash + 1);
  for (const auto word : vague) {
    if (name.substr(0, name.find('.')) != word) continue;
    return {{source.path, 0, fmt::format("a file is named \"{}\"", word),
             "name it after the one noun it holds"}};
  }
  return {};
}

}  // namespace cpprun::tidy
