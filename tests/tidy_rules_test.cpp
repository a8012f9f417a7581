// SPDX-License-Identifier: BSD-3-Clause
// Every rule of tests/tidy on snippets: what it must find, and what it must leave alone. A rule
// that cannot fail would be worse than none.

#include <doctest/doctest.h>

#include "tests/tidy/classes.h"
#include "tests/tidy/figures.h"
#include "tests/tidy/guide.h"
#include "tests/tidy/house.h"
#include "tests/tidy/includes.h"
#include "tests/tidy/layers.h"
#include "tests/tidy/limits.h"
#include "tests/tidy/links.h"
#include "tests/tidy/prose.h"
#include "tests/tidy/shape.h"
#include "tests/tidy/words.h"

using namespace cpprun::tidy;

TEST_CASE("comments and literals are not code, and code is not a comment") {
  CHECK(code_of("int a; // b\nint c;") == "int a;     \nint c;");
  CHECK(code_of("f(\"x // y\");") == "f(\"      \");");
  CHECK(code_of("int a = 1'000; /* b */ c") == "int a = 1'000;         c");
  CHECK(code_of("f(R\"(a \" b)\");") == "f(R\"       \");");
  CHECK(code_of("#include \"a/b.h\"  // why") == "#include \"a/b.h\"        ");
  CHECK(comments_of("int a; // b") == "       // b");
  CHECK(code_of("char q = '\"'; int b;") == "char q = ' '; int b;");
  CHECK(code_of("f(\"\\\"\"); g();") == "f(\"  \"); g();");
}

TEST_CASE("rooms include only in the agreed direction") {
  CHECK(check_directions({"rendezvous/a.cpp", "#include \"launcher/cli/cli.h\"\n"}).size() == 1);
  CHECK(check_directions({"proto/a.h", "#include \"rendezvous/store/store.h\"\n"}).size() == 1);
  CHECK(check_directions({"worker/env/a.h", "#include \"rendezvous/store/store.h\"\n"}).size() ==
        1);
  CHECK(check_directions({"worker/env/a.h", "#include \"worker/torch/ddp/ddp.h\"\n"}).size() == 1);
  CHECK(check_directions({"launcher/a.cpp", "#include \"rendezvous/store/store.h\"\n"}).empty());
  CHECK(check_directions({"worker/torch/a.cpp", "#include \"proto/rank.h\"\n"}).empty());
  CHECK(check_directions({"tests/sim/a.cpp", "#include \"launcher/agent/agent.h\"\n"}).empty());
}

TEST_CASE("within a room includes point downwards only") {
  const auto from_plan = [](std::string path) {
    return check_directions({std::move(path), "#include \"launcher/plan/plan.h\"\n"}).size();
  };
  CHECK(from_plan("launcher/plan/devices.cpp") == 0);
  CHECK(from_plan("launcher/workers/supervisor.cpp") == 0);
  CHECK(from_plan("launcher/agent/io/runtime.cpp") == 0);
  CHECK(from_plan("launcher/endpoint.cpp") == 1);
  CHECK(check_directions({"launcher/workers/a.cpp", "#include \"launcher/cli/cli.h\"\n"}).size() ==
        1);
  CHECK(check_directions({"rendezvous/job/a.cpp", "#include \"rendezvous/store/store.h\"\n"})
            .size() == 1);
  CHECK(check_directions({"worker/torch/group/a.cpp", "#include \"worker/torch/ddp/ddp.h\"\n"})
            .size() == 1);
  CHECK(check_directions({"launcher/cpprun.cpp", "#include \"launcher/cli/cli.h\"\n"}).empty());
}

TEST_CASE("a directory without a layer is found, and a layer without a directory") {
  const Tree tree = {{"launcher/config.cpp", ""},       {"launcher/io/a.h", ""},
                     {"launcher/plan/io/host.cpp", ""}, {"rendezvous/store/foo/a.cpp", ""},
                     {"rendezvous/foo/a.cpp", ""},      {"rendezvous/foo/io/b.cpp", ""},
                     {"rendezvous/foo/README.md", ""}};
  std::string unknown;
  std::string gone;
  for (const auto& violation : check_layers(tree)) {
    (violation.path == "tests/tidy/layers.cpp" ? gone : unknown) += to_text(violation) + "\n";
  }
  const std::string end =
      ":0: this directory has no layer; add it to the table in "
      "tests/tidy/layers.cpp\n";
  CHECK(unknown == "rendezvous/foo/" + end + "rendezvous/foo/io/" + end);
  CHECK(gone.find("launcher/plan/") == std::string::npos);
  CHECK(gone.find("the layer launcher/agent/ has no source file") != std::string::npos);
}

TEST_CASE("a root never includes from io, but io, programs and tests do") {
  const std::string text = "#include \"launcher/workers/io/process.h\"\n";
  CHECK(check_directions({"launcher/agent/agent.cpp", text}).size() == 1);
  CHECK(check_directions({"launcher/agent/io/runtime.cpp", text}).empty());
  CHECK(check_directions({"launcher/cpprun.cpp", text}).empty());
  CHECK(check_directions({"tests/launcher/workers/io/process_test.cpp", text}).empty());
}

TEST_CASE("a project header is included by its full path") {
  const auto violations = check_directions({"launcher/a.cpp", "\n#include \"agent.h\"\n"});
  REQUIRE(violations.size() == 1);
  CHECK(violations.front().line == 2);
  CHECK(check_directions({"launcher/a.cpp", "// #include \"agent.h\"\n"}).empty());
}

TEST_CASE("libraries are used only in their files") {
  CHECK(check_libraries({"rendezvous/store/store.cpp", "#include <asio.hpp>\n"}).size() == 1);
  CHECK(check_libraries({"rendezvous/store/io/listener.cpp", "#include <asio/ip/tcp.hpp>\n"})
            .empty());
  const std::string beast = "#include <boost/beast/http/parser.hpp>\n";
  CHECK(check_libraries({"proto/http/session.cpp", beast}).empty());
  CHECK(check_libraries({"rendezvous/status/io/status_server.cpp", beast}).size() == 1);
  CHECK(check_libraries({"launcher/plan/plan.cpp", "#include <CLI/CLI.hpp>\n"}).size() == 1);
  CHECK(check_libraries({"tests/sim/sim_main.cpp", "#include <CLI/CLI.hpp>\n"}).empty());
  CHECK(check_libraries({"launcher/cli/cli.cpp", "#include <CLI/CLI.hpp>\n"}).size() == 1);
  CHECK(check_libraries({"launcher/report/report.cpp", "#include <nlohmann/json.hpp>\n"}).size() ==
        1);
  CHECK(check_libraries({"launcher/report/report_json.cpp", "#include <nlohmann/json.hpp>\n"})
            .empty());
  CHECK(check_libraries({"launcher/plan/io/host.cpp", "#include <torch/torch.h>\n"}).size() == 1);
  CHECK(check_libraries({"worker/torch/ddp.cpp", "#include <ATen/ATen.h>\n"}).empty());
  CHECK(check_libraries({"proto/sniff.cpp", "#include <sys/socket.h>\n"}).size() == 1);
  CHECK(check_libraries({"proto/sniff.cpp", "#include <thread>\n"}).size() == 1);
  CHECK(check_libraries({"proto/sniff.cpp", "#include <string>\n"}).empty());
}

TEST_CASE("a source begins with its own header and a header with pragma once") {
  CHECK(check_own_header({"proto/a.cpp", "#include <string>\n#include \"proto/a.h\"\n"}, true)
            .size() == 1);
  CHECK(check_own_header({"proto/a.cpp", "// Why.\n#include \"proto/a.h\"\n"}, true).empty());
  CHECK(check_own_header({"proto/a.cpp", "#include <string>\n"}, false).empty());
  CHECK(check_own_header({"proto/a.h", "#include <string>\n"}, false).size() == 1);
  CHECK(check_own_header({"proto/a.h", "// Why.\n#pragma once\n"}, false).empty());
}

TEST_CASE("effects outside io are found in code and not in comments or names") {
  CHECK(
      check_effect_words({"launcher/agent/agent.cpp", "auto t = steady_clock::now();\n"}).size() ==
      1);
  CHECK(check_effect_words({"launcher/agent/agent.cpp", "std::thread t;\n"}).size() == 1);
  CHECK(check_effect_words({"launcher/agent/agent.cpp", "  ::kill(pid, 9);\n"}).size() == 1);
  CHECK(check_effect_words({"launcher/agent/agent.cpp", "// never steady_clock::now\n"}).empty());
  CHECK(check_effect_words({"launcher/agent/agent.cpp", "auto m = Plan::open(x);\n"}).empty());
  CHECK(check_effect_words({"launcher/agent/agent.cpp", "fmt::snprintf_like x;\n"}).empty());
  CHECK(check_effect_words({"launcher/plan/io/host.cpp", "std::thread t;\n"}).empty());
  CHECK(check_effect_words({"launcher/cpprun.cpp", "std::thread t;\n"}).empty());
}

TEST_CASE("only main reads the environment, not even io") {
  const std::string asks = "::getenv(\"RANK\");\n";
  CHECK(check_environment_words({"launcher/agent/agent.cpp", asks}).size() == 1);
  CHECK(check_environment_words({"launcher/plan/io/host.cpp", asks}).size() == 1);
  CHECK(check_environment_words({"launcher/plan/io/a.cpp", "f(environ);\n"}).size() == 1);
  CHECK(check_environment_words({"launcher/plan/io/a.cpp", "f(\"/proc/1/environ\");\n"}).empty());
  CHECK(check_environment_words({"launcher/cpprun.cpp", asks}).empty());
  CHECK(check_environment_words({"worker/env/io/environment.h", "f(environ);\n"}).empty());
}

TEST_CASE("replaceable code is found everywhere, with its replacement") {
  const auto violations =
      check_code_words({"tests/a_test.cpp", "std::this_thread::sleep_for(1s);\n"});
  REQUIRE(violations.size() == 1);
  CHECK(violations.front().cure.find("wait for what is to happen") != std::string::npos);
  CHECK(check_code_words({"launcher/io/a.cpp", "::nanosleep(&pause, nullptr);\n"}).empty());
  CHECK(check_code_words({"launcher/io/a.cpp", "return NULL;\n"}).size() == 1);
  CHECK(check_code_words({"launcher/io/a.cpp", "std::system(\"ls\");\n"}).size() == 1);
  CHECK(check_code_words({"launcher/io/a.cpp", "std::chrono::system_clock x;\n"}).empty());
  CHECK(check_code_words({"launcher/io/a.cpp", "machine.system(3);\n"}).empty());
  CHECK(check_code_words({"launcher/io/a.cpp", "f(\"NULL\");\n"}).empty());
  CHECK(check_code_words({"proto/bounds.h", "using namespace std::chrono_literals;\n"}).empty());
  CHECK(check_code_words({"launcher/config.cpp", "int n = std::stoi(text);\n"}).size() == 1);
  CHECK(check_code_words({"tests/a_test.cpp", "int n = std::stoi(text);\n"}).empty());
}

TEST_CASE("promises and the paths of one machine are found in prose too") {
  CHECK(check_prose_words({"docs/a.md",
                           "TO"
                           "DO: later\n"})
            .size() == 1);
  CHECK(check_prose_words({"docs/a.md",
                           "TO"
                           "DO: later, see docs/decisions.md\n"})
            .empty());
  CHECK(check_prose_words({"dev",
                           "cd /wo"
                           "rk/main\n"})
            .size() == 1);
  CHECK(check_prose_words({"dev",
                           "cd /ro"
                           "ot/.cache\n"})
            .size() == 1);
  CHECK(check_prose_words({"docs/a.md", "the working tree, the root of it\n"}).empty());
}

TEST_CASE("cpprun::io is what the io/ directories of launcher declare, and nothing else") {
  const std::string with_io = "#pragma once\nnamespace cpprun::io {\n}\n";
  const std::string without = "#pragma once\nnamespace cpprun {\n}\n";
  CHECK(check_io_namespace({"launcher/plan/io/host.h", with_io}).empty());
  CHECK(check_io_namespace({"launcher/plan/io/host.h", without}).size() == 1);
  CHECK(check_io_namespace({"launcher/plan/io/host.cpp", without}).empty());
  CHECK(check_io_namespace({"launcher/plan/plan.h", with_io}).size() == 1);
  CHECK(check_io_namespace({"rendezvous/io/program.h", without}).empty());
  CHECK(check_io_namespace({"rendezvous/io/program.h", with_io}).at(0).line == 2);
  CHECK(check_io_namespace({"worker/env/io/spawn.h", "// namespace io {\n" + without}).empty());
}

TEST_CASE("a file name that is not a noun is found") {
  CHECK(check_file_name({"launcher/utils.h", ""}).size() == 1);
  CHECK(check_file_name({"launcher/agent/agent.h", ""}).empty());
}

TEST_CASE("files and lines have a maximum length") {
  std::string long_file;
  for (int i = 0; i <= file_lines_max; ++i) long_file += "x\n";
  CHECK(check_length({"proto/a.cpp", long_file}).size() == 1);
  CHECK(check_length({"proto/a.cpp", long_file.substr(2)}).empty());
  CHECK(check_length({"proto/a.cpp", std::string(101, 'x') + "\n"}).size() == 1);
  std::string arrows = "// ";
  for (int i = 0; i < 97; ++i) arrows += "→";
  CHECK(check_length({"proto/a.cpp", arrows + "\n"}).empty());
  CHECK(check_length({"docs/a.md", std::string(300, 'x') + "\n"}).empty());
}

TEST_CASE("a function longer than a screen is found where it begins") {
  const auto body = [](int lines) {
    std::string text = "namespace a {\nint f(int x) {\n";
    for (int i = 0; i < lines; ++i) text += "  if (x) { --x; }\n";
    return text + "}\n}  // namespace a\n";
  };
  CHECK(check_functions({"proto/a.cpp", body(function_lines_max - 2)}).empty());
  const auto violations = check_functions({"proto/a.cpp", body(function_lines_max - 1)});
  REQUIRE(violations.size() == 1);
  CHECK(violations.front().line == 2);
}

TEST_CASE("a class or a table may be longer than a screen, its functions may not") {
  std::string members;
  for (int i = 0; i < 100; ++i) members += "  int f() const { return 1; }\n";
  CHECK(check_functions({"proto/a.h", "class A {\n" + members + "};\n"}).empty());
  CHECK(
      check_functions({"proto/a.h", "template <class T>\nclass A {\n" + members + "};\n"}).empty());
  std::string table = "const std::array words = {\n";
  for (int i = 0; i < 100; ++i) table += "  Word{f(1)},\n";
  CHECK(check_functions({"proto/a.cpp", table + "};\n"}).empty());
  std::string method = "class A {\n  int f() const {\n";
  for (int i = 0; i < 100; ++i) method += "    g();\n";
  CHECK(check_functions({"proto/a.h", method + "  }\n};\n"}).size() == 1);
}

TEST_CASE("blanks at line ends, tabs and missing line breaks are found") {
  CHECK(check_line_ends({"a.md", "x \ny\n"}).size() == 1);
  CHECK(check_line_ends({"a.md", "\tx\n"}).size() == 1);
  CHECK(check_line_ends({"a.md", "x"}).size() == 1);
  CHECK(check_line_ends({"a.md", "x\n\n"}).size() == 1);
  CHECK(check_line_ends({"a.md", "x\n\ny\n"}).empty());
}

TEST_CASE("a document has exactly one title and it comes first") {
  CHECK(check_title({"docs/a.md", "# One\n\n# Two\n"}).size() == 1);
  CHECK(check_title({"docs/a.md", "Words\n"}).size() == 1);
  CHECK(check_title({"docs/a.md", "# One\n```\n# a shell comment\n```\n## Section\n"}).empty());
}

// A header with two classes in it, and a source with that text somewhere else.
std::vector<Violation> methods_elsewhere(std::string text, std::string list = "") {
  const std::string header =
      "namespace cpprun {\nclass EXPORT Job final : public Base<int> {\n public:\n  struct Claim "
      "{\n"
      "    void f();\n  };\n  void f() { if (x) { g(); } }\n};\n"
      "template <class T>\nstruct Table {\n  void f();\n};\nenum class Kind { job };\n}\n";
  return check_methods({{"rendezvous/job/job.h", header},
                        {"rendezvous/job/job_loss.cpp", std::move(text)},
                        {"tests/tidy/fragments.txt", std::move(list)}});
}

TEST_CASE("a method that is defined in another file than its class is found") {
  const auto count = [](std::string definition) {
    return methods_elsewhere("namespace cpprun {\n" + std::move(definition) + "\n}\n").size();
  };
  const auto violations = methods_elsewhere("namespace cpprun {\n\nvoid Job::f() {}\n}\n");
  REQUIRE(violations.size() == 1);
  CHECK(to_text(violations.front()) ==
        "rendezvous/job/job_loss.cpp:3: a method of Job is defined here, and the class in "
        "rendezvous/job/job.h; move it to rendezvous/job/job.cpp: a class is one header "
        "and one "
        "source");
  CHECK(count("Job::Job(int a) : a_{a}, b_(B{1}) {}") == 1);
  CHECK(count("Job::~Job() = default;") == 1);
  CHECK(count("std::vector<A::B> Job::f(int (*g)(int)) const {}") == 1);
  CHECK(count("auto Job::f() -> Kind { return {}; }") == 1);
  CHECK(count("bool Job::operator<(const Job& b) const { return true; }") == 1);
  CHECK(count("void Job::operator()() {}\nJob::operator bool() const {}") == 1);
  CHECK(count("void Job::Claim::f() {}") == 1);
  CHECK(count("template <class T>\n[[nodiscard]] int Table<T>::f() {}") == 1);
  CHECK(count("}\nvoid cpprun::Job::f() {\n  for (;;) {}") == 1);
  CHECK(count("int g() {}\nstatic const int x = 1;\nvoid Job::f() {}\nvoid Job::g() {}") == 1);
}

TEST_CASE("text that is not a method of a class of another file is left alone") {
  const auto count = [](std::string text) { return methods_elsewhere(std::move(text)).size(); };
  CHECK(count("namespace cpprun {\nvoid f() { Job::f(); }\n}\n") == 0);
  CHECK(count("namespace cpprun {\nconst auto x = Job::f({1});\nJob g(Job::Claim c) {}\n}\n") == 0);
  CHECK(
      count(
          "namespace cpprun {\nnamespace {\nclass Job { void f(); };\nvoid Job::f() {}\n}\n}\n") ==
      0);
  CHECK(count("namespace other {\nvoid Job::f() {}\n}\n") == 0);
  CHECK(count("namespace cpprun {\n#define F void Job::f() {}\n// void Job::f() {}\n}\n") == 0);
  const std::string header = "namespace cpprun::inline v1 {\nclass Job { struct Impl; };\n}\n";
  const std::string source =
      "namespace cpprun {\ninline namespace v1 {\nstruct Job::Impl { void f(); };\n"
      "void Job::f() {}\nvoid Job::Impl::f() {}\n}\n}\n";
  CHECK(check_methods({{"worker/job.h", header}, {"worker/job.cpp", source}}).empty());
  CHECK(check_methods({{"worker/job.h", header}, {"worker/io/job.cpp", source}}).empty());
  CHECK(check_methods({{"worker/job.h", header}, {"worker/jobs.cpp", source}}).size() == 1);
  CHECK(check_methods({{"tests/job.h", header}, {"tests/jobs.cpp", source}}).empty());
}

TEST_CASE("the list of classes in several files loses entries that are no longer true") {
  const std::string text = "namespace cpprun {\nvoid Job::f() {}\n}\n";
  const std::string line = "rendezvous/job/job_loss.cpp Job\n";
  CHECK(methods_elsewhere(text, "# a list\n" + line).empty());
  CHECK(methods_elsewhere(text, "rendezvous/job/job_loss.cpp Job::Claim\n").size() == 2);
  const auto violations = methods_elsewhere("", "# a list\n" + line);
  REQUIRE(violations.size() == 1);
  CHECK(violations.front().path == "tests/tidy/fragments.txt");
  CHECK(violations.front().line == 2);
}

TEST_CASE("the name of a test is a sentence") {
  CHECK(check_test_names({"tests/a_test.cpp", "TEST_CASE(\"store\") {}\n"}).size() == 1);
  CHECK(check_test_names({"tests/a_test.cpp", "TEST_CASE(\"a set is heard\") {}\n"}).empty());
  CHECK(check_test_names({"tests/a_test.cpp", "TEST_CASE(\n    \"a set is heard\") {}\n"}).empty());
}

TEST_CASE("a decision without a test is found, an effect without one is not") {
  const Tree untested = {{"rendezvous/store/store.cpp", ""},
                         {"rendezvous/store/io/listener.cpp", ""},
                         {"launcher/cpprun.cpp", ""}};
  const auto violations = check_each_class_has_a_test(untested);
  REQUIRE(violations.size() == 1);
  CHECK(violations.front().cure ==
        "write tests/rendezvous/store/store_test.cpp, or include rendezvous/store/store.h in the "
        "*_test.cpp of that directory that tests it");
  const Tree tested = {{"proto/link/codec.cpp", ""}, {"tests/proto/link_codec_test.cpp", ""}};
  CHECK(check_each_class_has_a_test(tested).empty());
  const Tree together = {{"worker/env/report_json.cpp", ""}, {"tests/worker/report_test.cpp", ""}};
  CHECK(check_each_class_has_a_test(together).empty());
  const Tree elsewhere = {{"launcher/plan/devices.cpp", ""},
                          {"tests/launcher/cli/numa_test.cpp", ""}};
  CHECK(check_each_class_has_a_test(elsewhere).size() == 1);
}

TEST_CASE("one test file may test several classes of its directory, by including their headers") {
  const auto untested = [](std::string path, std::string text) {
    return check_each_class_has_a_test(
               {{"rendezvous/store/key_map.cpp", ""}, {std::move(path), std::move(text)}})
        .size();
  };
  const std::string text = "// T\n#include \"rendezvous/store/key_map.h\"\n";
  CHECK(untested("tests/rendezvous/store/store_test.cpp", text) == 0);
  CHECK(untested("tests/rendezvous/waits_test.cpp", text) == 0);
  CHECK(untested("tests/rendezvous/store/store_test.cpp", "#include \"key_map.h\"\n") == 1);
  CHECK(untested("tests/rendezvous/store/world.h", text) == 1);
  CHECK(untested("tests/rendezvous/job/job_test.cpp", text) == 1);
  CHECK(untested("tests/integration/store_test.cpp", text) == 1);
}

TEST_CASE("a room without a stated purpose is found") {
  const Source source{"launcher/plan/devices.cpp", ""};
  CHECK(check_each_room_has_a_readme({source}).size() == 1);
  CHECK(check_each_room_has_a_readme({source, {"launcher/plan/README.md", ""}}).empty());
  CHECK(check_each_room_has_a_readme({{"launcher/plan/io/host.cpp", ""}}).empty());
}

TEST_CASE("a test that no target names by its whole path is found") {
  const auto lost = [](std::string path, std::string lists, std::string text) {
    return check_each_test_has_a_target({{std::move(path), ""}, {std::move(lists), text}}).size();
  };
  CHECK(lost("tests/proto/a_test.cpp", "tests/proto/CMakeLists.txt", "t(SOURCES a_test.cpp)") == 0);
  CHECK(lost("tests/proto/a_test.cpp", "tests/launcher/CMakeLists.txt", "a_test.cpp") == 1);
  CHECK(lost("tests/proto/a_test.cpp", "tests/proto/CMakeLists.txt", "page_a_test.cpp") == 1);
  CHECK(lost("tests/proto/a_test.cpp", "tests/proto/CMakeLists.txt", "io/a_test.cpp") == 1);
  CHECK(lost("tests/proto/a_test.cpp", "tests/proto/CMakeLists.txt", "# a_test.cpp\n") == 1);
  CHECK(lost("tests/proto/io/a_test.cpp", "tests/proto/CMakeLists.txt", "io/a_test.cpp") == 0);
  CHECK(lost("tests/proto/io/a_test.cpp", "tests/proto/CMakeLists.txt", "a_test.cpp") == 1);
  CHECK(lost("tests/lab/a_test.py", "tests/lab/CMakeLists.txt", "t(\"${here}/a_test.py\" x)") == 0);
  CHECK(lost("tests/lab/a_test.py", "tests/lab/CMakeLists.txt", "t(\"${here}/b_a_test.py\")") == 1);
  CHECK(lost("tests/a_test.sh", "tests/CMakeLists.txt", "t(COMMAND \"${here}/a_test.sh\")") == 0);
  CHECK(lost("tests/a_test.sh", "tests/CMakeLists.txt", "t(NAME a_test)") == 1);
}

TEST_CASE("a program on the page on embedding that differs from the tested one is found") {
  const std::string page = "docs/embedding.md";
  for (const std::string path :
       {"tests/embed/server/main.cpp", "tests/embed/c/main.c", "tests/embed/python/store.py"}) {
    const Source program{path, "int main() {}\n"};
    CHECK(check_shown_programs({program, {page, "```cpp\nint main() {}\n```\n"}}).empty());
    CHECK(check_shown_programs({program, {page, "int main() { serve(); }\n"}}).size() == 1);
    CHECK(check_shown_programs({program}).size() == 1);
  }
  const Source moved{"tests/embed/from_libtorch/single.cpp", "int main() {}\n"};
  CHECK(check_shown_programs({moved, {page, moved.text}}).size() == 1);
  CHECK(check_shown_programs({moved, {"docs/cpp-from-libtorch.md", moved.text}}).empty());
}

TEST_CASE("a link to a missing page is found") {
  const Source map{"docs/README.md", "# M\n[a](a.md), [b](../B.md#two) and [c](https://c/d.md)\n"};
  CHECK(check_links({map, {"docs/a.md", ""}, {"B.md", ""}}).empty());
  CHECK(check_links({map, {"docs/a.md", ""}}).size() == 1);
  CHECK(check_links({map}).front().line == 2);
}

TEST_CASE("a missing file that a script or a page names is found") {
  const Source script{"tests/a.sh", "cc \"$source/worker/torch/a.cpp\"\n"};
  CHECK(check_named_files({script, {"worker/torch/a.cpp", ""}}).empty());
  CHECK(check_named_files({script}).size() == 1);
  CHECK(
      check_named_files({{"docs/a.md", "See `proto/gone.h`, and worker/torch/NAME.h.\n"}}).size() ==
      1);
  CHECK(check_named_files({{"CHANGELOG.md", "proto/gone.h\n"}}).empty());
  const Source target{"worker/CMakeLists.txt",
                      "look(\"${CMAKE_CURRENT_SOURCE_DIR}/torch/a.cpp\")\n"};
  CHECK(check_named_files({target, {"worker/torch/a.cpp", ""}}).empty());
  CHECK(check_named_files({target}).size() == 1);
}

TEST_CASE("a path that a rule names and that does not exist is found") {
  const std::string text = "Speaker{\"launcher/plan/devices.cpp\"}, starts_with(\"worker/exa\")\n";
  const Source rule{"tests/tidy/guide.cpp", text};
  const Source file{"launcher/plan/devices.cpp", ""};
  const Source example{"worker/examples/digits.cpp", ""};
  CHECK(check_named_files({file, rule, example}).empty());
  CHECK(check_named_files({file, rule}).size() == 1);
  CHECK(check_named_files({rule, example}).size() == 1);
  CHECK(check_named_files({{"launcher/plan/a.cpp", text}}).empty());
}

TEST_CASE("the figures of a room count its files, those of its io/ directory and their comments") {
  const auto rooms = figures_of({{"launcher/agent/a.h", "// why\nint a;  // and how\n\n\n"},
                                 {"launcher/agent/io/b.cpp", "int b;\n"},
                                 {"worker/torch/data/c.cpp", "int c;\nint d;\n"},
                                 {"proto/secure/io/d.cpp", "int d;\n"},
                                 {"launcher/agent/README.md", "# Agent\n"}});
  REQUIRE(rooms.size() == 4);
  CHECK(rooms[0] == RoomFigures{"launcher/agent", 2, 5, 1, 4, 2});
  CHECK(rooms[1] == RoomFigures{"proto/secure", 1, 1, 1, 1, 0});
  CHECK(rooms[2] == RoomFigures{"worker/torch/data", 1, 2, 2, 2, 0});
  CHECK(rooms[3] == RoomFigures{"all", 4, 8, 1, 4, 2});
  CHECK(to_text(rooms).find("launcher/agent") != std::string::npos);
  CHECK(figures_of({}).empty());
}

TEST_CASE("a room that exceeds its table is found, and a table that exceeds its room") {
  const auto judged = [](std::string_view list, int lines) {
    Tree tree = {{"launcher/agent/a.cpp", ""}, {"tests/a_test.cpp", "x\n"}};
    for (int i = 0; i < lines; ++i) tree.front().text += "x\n";
    if (!list.empty()) tree.push_back({"tests/tidy/sizes.txt", "# room\n" + std::string(list)});
    std::string text;
    for (const auto& violation : check_sizes(tree)) text += to_text(violation) + "\n";
    return text;
  };
  const std::string more =
      "; remove something, or run ./dev sizes and say in the commit why the room grows\n";
  const std::string stale = "; run ./dev sizes\n";
  CHECK(judged("launcher/agent 1 100\n", 100).empty());
  CHECK(judged("launcher/agent 1 103\n", 100).empty());
  CHECK(judged("launcher/agent 1 100\n", 101) ==
        "tests/tidy/sizes.txt:2: launcher/agent has 101 lines, and this line says 100" + more);
  CHECK(judged("launcher/agent 1 104\n", 100) ==
        "tests/tidy/sizes.txt:2: launcher/agent has 100 lines, and this line says 104" + stale);
  CHECK(judged("launcher/agent 2 100\n", 100) ==
        "tests/tidy/sizes.txt:2: launcher/agent has 1 files, and this line says 2" + stale);
  CHECK(judged("launcher/agent 0 100\n", 100) ==
        "tests/tidy/sizes.txt:2: launcher/agent has 1 files, and this line says 0" + more);
  CHECK(judged("launcher/agent 1 100\nlauncher/gone 1 1\n", 100) ==
        "tests/tidy/sizes.txt:3: launcher/gone does not exist" + stale);
  CHECK(judged("launcher/agent 1 many\n", 100) ==
        "tests/tidy/sizes.txt:2: this line is not a room and two numbers" + stale);
  CHECK(judged("", 100) == "tests/tidy/sizes.txt:0: launcher/agent is not in this table" + stale);
}

TEST_CASE("the tables that are written for a tree are those that it keeps") {
  Tree tree = {{"launcher/agent/a.cpp", "// nobody\n"}, {"worker/env/io/a.h", "x\nx\n"}};
  CHECK(check_sizes(tree).size() == 2);
  CHECK(check_prose(tree).size() == 2);
  for (auto& table : limits_of(tree)) tree.push_back(std::move(table));
  REQUIRE(tree.size() == 4);
  CHECK(check_sizes(tree).empty());
  CHECK(check_prose(tree).empty());
  for (std::size_t i = 2; i < 4; ++i) {
    CHECK(check_license_tag(tree[i]).empty());
    CHECK(check_length(tree[i]).empty());
  }
}

TEST_CASE("words to avoid are found in comments, literals and pages, and not in names") {
  const auto found = [](std::string path, std::string text) {
    return words_to_avoid_in({std::move(path), std::move(text)}).size();
  };
  const auto violations = words_to_avoid_in({"proto/a.h", "\n// Whoever asks\n"});
  REQUIRE(violations.size() == 1);
  CHECK(to_text(violations.front()) ==
        "proto/a.h:2: \"whoever\" is a word to avoid; instead: name it: the client, the node, the "
        "leader, the user");
  CHECK(found("proto/a.h", "/* nobody */ f(\"somebody {}\", R\"(in vain)\");\n") == 3);
  CHECK(found("proto/a.h", "int nobody;\n#include \"wish\"\n// _wish wish_ wishing heirs\n") == 0);
  CHECK(found("docs/a.md", "Nobody is the one that leads no more, and no more.\n") == 4);
  CHECK(found("docs/a.md", "`--beat-timeout` `beat()` x/wish.h `folder` a.beat \"cure\"\n") == 0);
  CHECK(found("docs/a.md", "a beat, a folder. The wish\n") == 3);
  CHECK(found("docs/a.md", "one\nthat\n") == 0);
  CHECK(found("tests/a.h", "// nobody\n") == 1);
  CHECK(found("tests/tidy/a.h", "// nobody\n") == 0);
  CHECK(found("CHANGELOG.md", "nobody\n") == 0);
}

TEST_CASE("words to avoid are counted for each room, with all words") {
  const Tree tree = {{"launcher/agent/a.h", "// nobody's here\nint a;\n"},
                     {"launcher/agent/README.md", "# The agent\n"},
                     {"README.md", "# A whoever\n"},
                     {"launcher/agent/a.py", "# nobody\n"}};
  const auto rooms = prose_figures_of(tree);
  CHECK(rooms.size() == 2);
  CHECK(rooms.at("launcher/agent") == ProseFigures{1, 4});
  CHECK(rooms.at(".") == ProseFigures{1, 2});
  CHECK(to_text(rooms) == "words to avoid in comments, strings and docs: 2, 3333.3 per 10,000\n");
}

TEST_CASE("the words to avoid of a room may only get fewer, and those of all rooms too") {
  const auto tree_with = [](std::string list, std::string words) {
    return Tree{{"docs/a.md", std::move(words)},
                {"README.md", "whoever\n"},
                {"tests/tidy/prose.txt", ". 1 10000\n" + std::move(list)}};
  };
  CHECK(check_prose(tree_with("docs 2 1\n", "nobody nobody\n")).empty());
  CHECK(check_prose(tree_with("docs 1 1\n", "nobody nobody\n")).size() == 1);
  CHECK(check_prose(tree_with("docs 3 1\n", "nobody nobody\n")).size() == 1);
  CHECK(limits_of(tree_with("docs 2 1\n", "nobody nobody\n")).size() == 2);
  CHECK(limits_of(tree_with("docs 1 1\n", "nobody nobody\n")).size() == 1);
  CHECK(limits_of(tree_with("proto 2 1\n", "nobody nobody\n")).back().text.find("docs") !=
        std::string::npos);
}

TEST_CASE("a source without a license tag at its start is found") {
  const std::string tag = "SPDX-License-Identifier: BSD-3-Clause\n";
  CHECK(check_license_tag({"proto/a.h", "// " + tag + "#pragma once\n"}).empty());
  CHECK(check_license_tag({"proto/a.c", "// " + tag}).empty());
  CHECK(check_license_tag({"tests/CMakeLists.txt", "# " + tag}).empty());
  CHECK(check_license_tag({"dev", "#!/bin/sh\n# " + tag}).empty());
  CHECK(check_license_tag({"docs/a.md", "# A\n"}).empty());
  CHECK(check_license_tag({"proto/a.h", "#pragma once\n// " + tag}).size() == 1);
  CHECK(check_license_tag({"proto/a.h", "# " + tag}).size() == 1);
  CHECK(check_license_tag({"dev", "#!/bin/sh\n"}).size() == 1);
  CHECK(check_license_tag({"proto/a.h", "// SPDX-License-Identifier: MIT\n"}).size() == 1);
  CHECK(check_license_tag({"proto/a.h", ""}).size() == 1);
}

TEST_CASE("a page shows a program without the tag of its license") {
  const Source program{"tests/embed/server/main.cpp", "// SPDX-License-Identifier: X\nint a;\n"};
  CHECK(check_shown_programs({program, {"docs/embedding.md", "int a;\n"}}).empty());
  CHECK(check_shown_programs({program, {"docs/embedding.md", "int b;\n"}}).size() == 1);
}

TEST_CASE("a violation has the format of compiler messages") {
  CHECK(to_text({"proto/a.h", 3, "a tab", "write spaces"}) == "proto/a.h:3: a tab; write spaces");
}

TEST_CASE("the sentences of a source are its longer literals, unescaped") {
  CHECK(sentences_of("#include \"a b c d e.h\"\n// \"one two three four\"\nf(\"short one\");")
            .empty());
  CHECK(sentences_of(
            "f(\"the {} of \\\"{:.0f}\\\" is \"\n  \"not here\", \"but that one is here\")") ==
        std::vector<std::string>{"the … of \"…\" is not here", "but that one is here"});
}

TEST_CASE("the troubleshooting page has every sentence about the set-up, however it is wrapped") {
  const Source page{"docs/troubleshooting.md", "# T\n\n> the node … is\n> not here at all\n"};
  const Source source{"launcher/agent/misconfiguration.cpp",
                      "f(\"the node {} is not here at all\");"};
  CHECK(check_troubleshooting({page, source}).empty());
  CHECK(check_troubleshooting({{"docs/troubleshooting.md", "# T\n"}, source}).size() == 1);
  CHECK(check_troubleshooting({source}).size() == 1);
  // A list that names a sentence which no longer exists would check nothing.
  CHECK(check_troubleshooting(
            {page, {"rendezvous/coordinator/coordinator.cpp", "f(\"it is over and done with\");"}})
            .size() == 2);  // two beginnings are looked for there
}
