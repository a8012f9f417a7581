// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/failure/evidence.h"

#include <doctest/doctest.h>

namespace missing_module_test {

using namespace cpprun;

TEST_CASE("the missing module is taken from Python's message") {
  CHECK(missing_module({"ModuleNotFoundError: No module named 'utlis'"}) == "utlis");
  CHECK(missing_module({"[rank0]: ModuleNotFoundError: No module named 'pkg.utlis'", "", "bye"}) ==
        "pkg.utlis");
  CHECK(missing_module({"/usr/bin/python3: No module named tarin"}) == "tarin");
  CHECK(missing_module({"No module named 'a'", "No module named 'b'"}) == "b");
  CHECK(missing_module({"ValueError: bad"}).empty());
  CHECK(missing_module({"No module named "}).empty());
}

TEST_CASE("a name with one or two wrong letters is similar, another name is not") {
  CHECK(similar_name("utlis", {"train", "utils"}) == "utils");
  CHECK(similar_name("modle", {"model", "models"}) == "model");
  CHECK(similar_name("tarin", {"train"}) == "train");
  CHECK(similar_name("torch", {"train", "data"}).empty());
  CHECK(similar_name("np", {"nq"}).empty());
  CHECK(similar_name("utils", {"utils"}).empty());
  CHECK(similar_name(std::string(1000, 'a'), {std::string(1000, 'a') + "b"}).empty());
}

TEST_CASE("advice never installs into the system's Python") {
  CHECK(missing_module_advice("utlis", {.similar = "utils"}, "/usr/bin/python3") ==
        "did you mean \"utils\"?");
  CHECK(missing_module_advice("utils", {.elsewhere = "/work"}, "/usr/bin/python3") ==
        "set PYTHONPATH=/work, which has \"utils\"; Python only searches the directory of the "
        "script");
  CHECK(missing_module_advice("torch", {.in_environment = true}, "/opt/venv/bin/python")
            .find("/opt/venv/bin/python -m pip install") != std::string::npos);
  CHECK(missing_module_advice("pkg.modle", {.own_package = "pkg"}, "/opt/venv/bin/python") ==
        "check the name: your package \"pkg\" has no module \"modle\"");
  const auto system = missing_module_advice("torch", {}, "/usr/bin/python3.11");
  CHECK(system.find("pip install") == std::string::npos);
  CHECK(system.find("/usr/bin/python3.11 is the system's Python") != std::string::npos);
  // A shell ran, and which Python it ran is unknown.
  CHECK(missing_module_advice("torch", {.in_environment = true}, "/bin/bash").find("bash") ==
        std::string::npos);
}

}  // namespace missing_module_test
