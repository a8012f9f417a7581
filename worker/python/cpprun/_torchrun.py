# SPDX-License-Identifier: BSD-3-Clause
"""Has torch.distributed.run start cpprun, for programs that call it in-process.

`accelerate launch`, `fabric run`, `python -m torch.distributed.run` and PyTorch's own torchrun do
so. Importing this module is enough; `python -m cpprun.shim install` has Python do that each time it
starts. So it imports only os and sys, which Python has loaded by then. When torch.distributed.run
is imported, its run() and main() are replaced. CPPRUN_TORCHRUN=off keeps PyTorch's own launcher.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, ModuleType
    from typing import Any, NoReturn

MODULE = "torch.distributed.run"
SWITCH = "CPPRUN_TORCHRUN"
# Set for the program that is started here, to the CPPRUN_NODE_TOKEN of this process. cpprun gives
# its workers another token, so where both are equal, no cpprun is in between.
CALLER = "CPPRUN_TORCHRUN_CALLER"


def is_off() -> bool:
    value = os.environ.get(SWITCH, "")
    if value not in ("", "on", "off"):
        print(f'cpprun: warning: {SWITCH}="{value}" is neither on nor off; using on',
              file=sys.stderr)
    return value == "off"


class Finder:
    """Finds torch.distributed.run as Python would, and has its functions replaced."""

    def __init__(self) -> None:
        self.searching = False  # a finder of another package may ask all finders, too

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        if name != MODULE or self.searching or is_off():
            return None
        self.searching = True
        try:
            for finder in sys.meta_path:
                find = getattr(finder, "find_spec", None)
                spec = find(name, path, target) if find and finder is not self else None
                if spec is not None and spec.loader is not None:
                    spec.loader = _Loader(spec.loader)
                    return spec
        finally:
            self.searching = False
        return None


class _Loader:
    def __init__(self, original: "Any") -> None:
        self.original = original

    def __getattr__(self, name: str) -> "Any":
        return getattr(self.__dict__["original"], name)

    def exec_module(self, module: "ModuleType") -> None:
        self.original.exec_module(module)
        _replace(module)

    def get_code(self, _: str) -> "CodeType":
        """What `python -m torch.distributed.run` executes; an import uses exec_module()."""
        return compile("from cpprun._torchrun import main\n"
                       "if __name__ == '__main__':\n"
                       "    main()\n", "<cpprun>", "exec")


def _replace(module: "ModuleType") -> None:
    for function in (run, main):
        if hasattr(module, function.__name__):
            setattr(module, function.__name__, function)


def run(args: "Any") -> None:
    """torch.distributed.run.run() with cpprun: returns when the job has ended with 0.

    `args`: the namespace that torchrun's parser returns. Ends this process if the job fails.
    """
    script = getattr(args, "training_script", None)
    if not isinstance(script, (str, os.PathLike)):
        _fail(2, f"torch.distributed.run.run(): training_script is a {type(script).__name__}, "
              "neither a path nor the name of a module",
              f"set {SWITCH}=off to use PyTorch's own launcher")
    import argparse
    _start(args if isinstance(args, argparse.Namespace) else argparse.Namespace(**vars(args)))


def main(args: "Any" = None) -> None:
    """torch.distributed.run.main() with cpprun, which reads the command line itself."""
    _start(sys.argv[1:] if args is None else args)


def _start(args: "Any") -> None:
    import threading

    from ._launch import JobFailed, find_program, launch, words_of
    token = os.environ.get("CPPRUN_NODE_TOKEN", "none")
    try:
        if os.environ.get(CALLER) == token:
            _fail(1, f"{find_program()} is not the cpprun program: it calls {MODULE} again",
                  "remove this file, and install cpprun: pip install --force-reinstall cpprun")
        # Under a scheduler, cpprun's defaults for these are not torchrun's.
        launch(words_of(args, explicit=("nnodes", "nproc_per_node")), {CALLER: token})
    except FileNotFoundError as error:
        _fail(1, str(error))
    except JobFailed as failed:
        # In another thread, SystemExit would end the thread alone, without a message.
        if threading.current_thread() is not threading.main_thread():
            raise
        code = failed.exit_code
    else:
        return
    # Not inside `except`: callers that print exceptions have nothing to add to cpprun's report.
    raise SystemExit(code)


def _fail(code: int, fact: str, hint: str = "") -> "NoReturn":
    print(f"cpprun: error: {fact}" + (f"\n  hint: {hint}" if hint else ""), file=sys.stderr)
    raise SystemExit(code)


sys.meta_path.insert(0, Finder())  # type: ignore[arg-type]
if MODULE in sys.modules and not is_off():
    _replace(sys.modules[MODULE])
