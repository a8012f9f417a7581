// SPDX-License-Identifier: BSD-3-Clause
// The probe in real Python processes.
#include "launcher/hang/probe.h"

#include <doctest/doctest.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <string>

#include "launcher/hang/io/stack_collector.h"
#include "tests/launcher/hang/io/python_worker.h"

namespace python_probe_test {

using namespace cpprun;

namespace {

using probe::PythonWorker;
using probe::variable;

// A PyTorch that has only what the probe uses; the server prints to stderr as the real one does.
std::string make_torch(const probe::PrivateDirectory& directory) {
  directory.file("torch/__init__.py", "import torch.distributed\n");
  directory.file("torch/distributed/__init__.py", "");
  directory.file("torch/_C/__init__.py", "");
  directory.file("torch/_C/_distributed_c10d.py", R"PY(
import os, socket
class _WorkerServer:
    def __init__(self, path, port):
        os.write(2, b"Server listening\n")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
    def __del__(self):
        os.write(2, b"destroyed\n")
)PY");
  return directory.path;
}

// What a Python script prints.
std::string output_of(const std::string& python, const std::string& script) {
  PythonWorker worker(python, script);
  return worker.out.read_all();
}

// Prints whether there is a server, the entries of sys.path that are ours, and what the children
// do.
constexpr const char* script = R"PY(
import os, subprocess, sys
path = os.environ["CPPRUN_PROBE_SOCKET"]
print(os.path.exists(path), os.path.dirname(path) in str(sys.modules.get("sitecustomize")))
import torch
print(os.path.exists(path) and oct(os.stat(path).st_mode & 0o777))
print(os.path.dirname(path) in sys.path, "_Finder" in str(sys.meta_path))
sys.stdout.flush()
child = os.fork()
if child == 0:
    sys.exit(0)
print(os.waitpid(child, 0)[1])
sys.stdout.flush()
subprocess.run([sys.executable, "-c", "import torch; print(hasattr(torch, 'anything'))"])
print(os.path.exists(path))
)PY";

}  // namespace

TEST_CASE("a Python worker serves from the import of torch.distributed on, its children do not") {
  for (const auto& python : probe::pythons()) {
    CAPTURE(python);
    const probe::PrivateDirectory torch;
    PythonWorker worker(python, script, make_torch(torch));
    CHECK(worker.out.read_all() == "False False\n0o600\nFalse False\n0\nFalse\nTrue\n");
  }
}

TEST_CASE("the user's sitecustomize runs as without the probe") {
  for (const auto& python : probe::pythons()) {
    CAPTURE(python);
    const probe::PrivateDirectory torch;
    torch.file("sitecustomize.py", "import sys\nmark = 5\nprint('theirs')\n");
    PythonWorker worker(python, "import sitecustomize\nprint(sitecustomize.mark)\n",
                        make_torch(torch));
    CHECK(worker.out.read_all() == "theirs\n5\n");
  }
}

TEST_CASE("without PYTHONPATH there is no server, and with a broken PyTorch no error") {
  const auto python = variable("CPPRUN_TEST_PYTHON");
  if (python.empty()) return;
  const probe::PrivateDirectory torch;
  const auto path = make_torch(torch);
  for (const char* flag : {"-I", "-E", "-S"}) {
    CAPTURE(flag);
    PythonWorker without(python,
                         "import os, sys\nsys.path.insert(0, '" + path +
                             "')\nimport torch\n"
                             "print(os.path.exists(os.environ['CPPRUN_PROBE_SOCKET']))",
                         path, {flag});
    CHECK(without.out.read_all() == "False\n");
  }
  torch.file("torch/_C/_distributed_c10d.py", "raise RuntimeError('broken')\n");
  PythonWorker broken(python, "import torch\nprint('fine')\n", path);
  CHECK(broken.out.read_all() == "fine\n");
}

TEST_CASE("the sitecustomize of a virtual environment runs as without the probe") {
  for (const auto& python : probe::pythons()) {
    CAPTURE(python);
    const probe::PrivateDirectory directory;
    REQUIRE(output_of(python, "import venv; venv.create('" + directory.path + "/venv')").empty());
    const std::string mine =
        "import sysconfig; open(sysconfig.get_path('purelib') + "
        "'/sitecustomize.py', 'w').write('print(\"theirs\")')";
    const std::string venv = directory.path + "/venv/bin/python";
    REQUIRE(output_of(venv, mine).empty());
    // Debian's Python has one of its own, which comes first.
    const std::string theirs =
        output_of(python, "import subprocess; subprocess.run(['" + venv + "', '-c', ''], env={})");
    PythonWorker worker(venv, script, make_torch(directory));
    CHECK(worker.out.read_all() ==
          theirs + "False False\n0o600\nFalse False\n0\n" + theirs + "False\nTrue\n");
  }
}

TEST_CASE("a zipapp has the probe as well") {
  for (const auto& python : probe::pythons()) {
    CAPTURE(python);
    const probe::PrivateDirectory directory;
    directory.file("app/__main__.py", script);
    const std::string make = "import zipapp; zipapp.create_archive('" + directory.path + "/app')";
    REQUIRE(output_of(python, make).empty());
    std::ifstream file(directory.path + "/app.pyz", std::ios::binary);
    const std::string archive(std::istreambuf_iterator<char>(file), {});
    PythonWorker worker(python, archive, make_torch(directory));
    CHECK(worker.out.read_all() == "False False\n0o600\nFalse False\n0\nFalse\nTrue\n");
  }
}

TEST_CASE("a worker that exits gives requests under way a moment, and does not wait without one") {
  const std::string begin =
      "import os, socket, time\nimport torch\n"
      "time.sleep = lambda seconds: print('waits', flush=True)\n";
  const std::string request =
      "client = socket.socket(socket.AF_UNIX)\n"
      "client.connect(os.environ['CPPRUN_PROBE_SOCKET'])\n";
  for (const auto& python : probe::pythons()) {
    CAPTURE(python);
    const probe::PrivateDirectory torch;
    PythonWorker alone(python, begin, make_torch(torch));
    CHECK(alone.out.read_all().empty());
    PythonWorker asked(python, begin + request, make_torch(torch));
    CHECK(asked.out.read_all().starts_with("waits\n"));
    PythonWorker spaced(python, begin + request, make_torch(torch), {}, "with a space");
    CHECK(spaced.out.read_all().starts_with("waits\n"));
  }
}

TEST_CASE("PyTorch's server answers with the stack of a worker that hangs") {
  const auto python = variable("CPPRUN_PYTHON");
  if (python.empty()) return;
  PythonWorker worker(python, R"PY(
import os, torch, time
# A script may have a server of its own.
from torch._C._distributed_c10d import _WorkerServer
server = _WorkerServer(os.environ["CPPRUN_PROBE_SOCKET"] + ".mine", -1)
def stuck():
    print("ready", flush=True)
    time.sleep(1000)
stuck()
)PY");
  std::string line;
  do line = worker.out.read_line();
  while (line != "ready" && !line.empty());
  REQUIRE(line == "ready");
  const auto seen = io::observe_workers(
      {{.local_rank = LocalRank{0}, .rank = Rank{0}, .pid = worker.pid, .socket = worker.socket}},
      {.timeout = std::chrono::seconds(60), .answer_timeout = std::chrono::seconds(30)});
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].ping.body == "pong");
  // It may not have returned from print() yet.
  const std::string& traceback = seen[0].traceback.body;
  const bool names_line = traceback.find("train.py\", line 7 in stuck") != std::string::npos ||
                          traceback.find("train.py\", line 8 in stuck") != std::string::npos;
  CHECK_MESSAGE(names_line, traceback);
  CHECK(seen[0].flight_record.body.find("\"pg_status\"") != std::string::npos);
}

}  // namespace python_probe_test
