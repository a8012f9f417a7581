// SPDX-License-Identifier: BSD-3-Clause
#include "tests/failures/staged.h"

namespace cpprun::failures {

namespace {

const std::string only_rank_1 =
    "import os, time\n"
    "if os.environ['RANK'] != '1':\n"
    "    time.sleep(1000)\n";

Staged script(const Stage& stage, const std::string& name, const std::string& text,
              const std::string& cause, const std::string& advice, Needs needs = Needs::python) {
  return {.name = "python: " + name,
          .program = {file(stage, "failing_" + name + ".py", only_rank_1 + text)},
          .cause = cause,
          .advice = advice,
          .needs = needs};
}

}  // namespace

std::vector<Staged> python_errors(const Stage& stage) {
  const auto plain = [&](const char* name, const char* text, const char* cause,
                         const char* advice) { return script(stage, name, text, cause, advice); };
  const auto torch = [&](const char* name, const char* text, const char* cause,
                         const char* advice) {
    return script(stage, name, text, cause, advice, Needs::torch);
  };
  return {
      plain("exception", "raise ValueError('bad label 17')\n", "python_exception", "@record"),
      plain("module", "import not_a_module\n", "python_module_missing", "PYTHON_EXEC"),
      plain("chained",
            "try:\n    raise ConnectionResetError('Connection reset by peer')\n"
            "except OSError:\n    raise KeyError('epoch')\n",
            "python_exception", "traceback"),
      plain("memory",
            "import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28))\n"
            "all = [bytearray(1 << 26) for _ in range(100)]\n",
            "memory_refused", "smaller batch"),
      plain("recursion", "def f():\n    f()\nf()\n", "recursion", "cycle"),
      plain("file", "open('/nowhere/weights.bin')\n", "file_missing", "on that node"),
      plain("permission", "if os.getuid() == 0:\n    os.setuid(65534)\nopen('/proc/1/environ')\n",
            "permission_denied", "owner and mode"),
      plain("arguments",
            "import argparse\nargparse.ArgumentParser().parse_args(['--batch-sise=4'])\n", "usage",
            "follow the script"),
      plain("library", "import ctypes\nctypes.CDLL('libnot_at_all.so')\n", "library_missing",
            "LD_LIBRARY_PATH"),
      plain("refused", "import socket\nsocket.create_connection(('127.0.0.1', 1))\n",
            "connection_refused", "the server was started"),
      plain("faulthandler",
            "import ctypes, faulthandler\nfaulthandler.enable()\nctypes.string_at(0)\n", "segfault",
            "core dump"),
      plain("full_disk", "f = open('/dev/full', 'w')\nf.write('x')\nf.flush()\n", "disk_full",
            "free some space"),
      plain("syntax", "exec(compile('def f(:', 'model.py', 'exec'))\n", "python_syntax",
            "newer Python"),
      torch("no_cuda", "import torch\ntorch.zeros(1).cuda()\n", "cuda_missing", "nvidia-smi"),
      torch("huge_tensor", "import torch\ntorch.empty(1 << 45)\n", "memory_refused",
            "smaller batch"),
      torch(
          "broken_checkpoint",
          "import torch\np = __file__ + '.pt'\nopen(p, 'wb').write(b'PK\\x03\\x04' + b'x' * 100)\n"
          "torch.load(p)\n",
          "checkpoint_broken", "use the previous checkpoint"),
  };
}

}  // namespace cpprun::failures
