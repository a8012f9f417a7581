# SPDX-License-Identifier: BSD-3-Clause
"""python -m cpprun.shim install|remove|status [DIR]: use cpprun where torchrun is called.

install writes a .pth file into the site-packages of this Python. Python reads it each time it
starts and imports _torchrun, which replaces torch.distributed.run. With DIR, install also makes
DIR/torchrun, a link to the cpprun program. The .pth file lists these links, so that remove finds
them. No file of another package is changed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shlex
import shutil
import site
import subprocess
import sys
import sysconfig
from typing import NoReturn

_IS_HOOKED = f"{__package__}._torchrun" in sys.modules  # before this module imports it

from . import _torchrun  # noqa: E402
from ._launch import find_program  # noqa: E402

_PTH = "cpprun_torchrun.pth"
_FIRST_LINE = "# Written by python -m cpprun.shim install; cpprun.shim remove removes it."
_LINK = "# link: "
# Python executes a line that begins with "import". This one does nothing without the package.
_IMPORT = 'import os; exec("try:\\n import cpprun._torchrun\\nexcept ImportError: pass")'


def _fail(fact: str, hint: str = "") -> NoReturn:
    sys.exit(f"cpprun: error: {fact}" + (f"\n  hint: {hint}" if hint else ""))


def _note(fact: str, hint: str = "") -> None:
    print(f"cpprun: note: {fact}" + (f"\n  hint: {hint}" if hint else ""), file=sys.stderr)


def _command(*words: str) -> str:
    return " ".join(shlex.quote(each) for each in (sys.executable, "-m", "cpprun.shim", *words))


# --- The .pth file ------------------------------------------------------------------------------

def _site_directories() -> list[str]:
    """Where Python looks for .pth files; the directory that has this package is the first."""
    found = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    if site.ENABLE_USER_SITE:
        found.append(site.getusersitepackages())
    home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return sorted(dict.fromkeys(found), key=lambda each: each != home)


def _read(path: str) -> str:
    if not os.path.isfile(path):
        return ""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(100_000)
    except OSError:
        return ""


def _is_our_pth(path: str) -> bool:
    return f"{__package__}._torchrun" in _read(path)


def _pth_files() -> list[str]:
    paths = [os.path.join(each, _PTH) for each in _site_directories()]
    return [each for each in paths if _is_our_pth(each)]


def _links_in(pth: str) -> list[str]:
    lines = _read(pth).splitlines()
    return [json.loads(each[len(_LINK):]) for each in lines if each.startswith(_LINK)]


def _write_pth(path: str, links: list[str]) -> None:
    lines = [_FIRST_LINE, *(_LINK + json.dumps(each) for each in links), _IMPORT]
    temporary = f"{path}.{os.getpid()}"
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        os.replace(temporary, path)
    except OSError as error:
        _fail(f"cannot write {path}: {error.strerror}",
              "use a virtual environment that you can write to, or run this as the owner of "
              f"{os.path.dirname(path)}")


# --- The link -----------------------------------------------------------------------------------

def _is_our_link(path: str) -> bool:
    return os.path.islink(path) and os.path.basename(os.readlink(path)) == "cpprun"


def _is_torchs_script(path: str) -> bool:
    return _torchrun.MODULE in _read(path)


def _check_link(link: str) -> None:
    """Ends this program if install may not make that link."""
    directory = os.path.dirname(link)
    if not os.path.isdir(directory):
        _fail(f"{directory} is not a directory", f"mkdir -p {shlex.quote(directory)}")
    elsewhere = "use another directory, and put it first on PATH"
    if os.path.realpath(directory) == os.path.realpath(sysconfig.get_path("scripts")):
        _fail(f"{directory} is where pip installs PyTorch's own torchrun", elsewhere)
    if not os.path.lexists(link) or _is_our_link(link):
        return
    if _is_torchs_script(link):
        _fail(f"{link} is PyTorch's own torchrun; it was not changed", elsewhere)
    _fail(f"{link} exists and was not made by cpprun; it was not changed", elsewhere)


def _make_link(link: str, program: str) -> None:
    try:
        if _is_our_link(link):
            os.unlink(link)
        os.symlink(program, link)
    except OSError as error:
        _fail(f"cannot create {link}: {error.strerror}", "use a directory that you can write to")


# --- Versions -----------------------------------------------------------------------------------

def _program() -> str:
    try:
        return os.path.abspath(find_program())
    except FileNotFoundError as error:
        _fail(str(error))


def _program_version(program: str) -> str:
    """The version, or "" if the program does not report one."""
    environment = dict(os.environ)
    environment[_torchrun.CALLER] = environment.get("CPPRUN_NODE_TOKEN", "none")
    try:
        ended = subprocess.run([program, "--version"], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
                               env=environment, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    words = ended.stdout.decode(errors="replace").split()
    return words[1] if ended.returncode == 0 and words[:1] == ["cpprun"] and words[1:] else ""


def _package_version() -> str:
    """The version that pip installed; "" if this package runs from elsewhere."""
    try:
        from importlib import metadata  # since Python 3.8
        found = metadata.distribution("cpprun")
    except ImportError:
        return ""
    installed = str(found.locate_file("cpprun"))
    is_this = os.path.realpath(installed) == os.path.dirname(os.path.realpath(__file__))
    return found.version if is_this else ""


# --- Commands -----------------------------------------------------------------------------------

def install(directory: str | None) -> None:
    program = _program()
    version = _program_version(program)
    if not version:
        _fail(f"{program} is not the cpprun program, or cannot run here",
              "pip install --force-reinstall cpprun")
    pth = (_pth_files() or [os.path.join(_site_directories()[0], _PTH)])[0]
    if os.path.lexists(pth) and not _is_our_pth(pth):
        _fail(f"{pth} exists and was not written by cpprun; it was not changed",
              f"rm {shlex.quote(pth)}")
    links = _links_in(pth)
    link = None if directory is None else os.path.join(os.path.abspath(directory), "torchrun")
    if link is not None:
        _check_link(link)
        links = [*(each for each in links if each != link), link]
    _write_pth(pth, links)
    print(f"wrote {pth}: torch.distributed.run of this Python starts cpprun")
    if link is not None:
        _make_link(link, program)
        print(f"made {link}, a link to {program}")
    _print_notes(program, version, link)


def _has_torch() -> bool:
    found = importlib.util.find_spec("torch")
    return found is not None and found.origin is not None  # not just a directory of that name


def _print_notes(program: str, version: str, link: str | None) -> None:
    if not _has_torch():
        _note(f"{sys.executable} has no torch; the .pth file has no effect until you install it")
    package = _package_version()
    if package not in ("", version):
        _note(f"{program} has version {version}, this package has version {package}",
              "pip install --force-reinstall cpprun")
    if os.environ.get(_torchrun.SWITCH, "") == "off":
        _note(f"{_torchrun.SWITCH}=off is set, so PyTorch's own launcher is used")
    found = shutil.which("torchrun")
    if link is not None and found != link:
        _note("torchrun is not on PATH" if found is None else f"torchrun is still {found}",
              f"export PATH={shlex.quote(os.path.dirname(link))}:$PATH")


def remove(directory: str | None) -> None:
    pths = _pth_files()
    links = [each for pth in pths for each in _links_in(pth)]
    if directory is not None:
        links.append(os.path.join(os.path.abspath(directory), "torchrun"))
    removed = 0
    for path in [*dict.fromkeys(links), *pths]:  # the record of the links is the last to go
        if path not in pths and not _is_our_link(path):
            if os.path.lexists(path):
                _note(f"{path} is not a link to cpprun; it was not changed")
            continue
        try:
            os.unlink(path)
        except OSError as error:
            _fail(f"cannot remove {path}: {error.strerror}")
        print(f"removed {path}")
        removed += 1
    if removed == 0:
        print("nothing to remove")


def status(directory: str | None) -> None:
    program = _program()
    version = _program_version(program) or "unknown version"
    print(f"cpprun                 {program} ({version})")
    print(f"torchrun               {_torchrun_text(shutil.which('torchrun'))}")
    if directory is not None:
        link = os.path.join(os.path.abspath(directory), "torchrun")
        print(f"torchrun in DIR        {_torchrun_text(link if os.path.lexists(link) else None)}")
    print(f"torch.distributed.run  {_module_text()}")


def _torchrun_text(path: str | None) -> str:
    if path is None:
        return "not found"
    if os.path.islink(path):
        return f"{path}, a link to {os.readlink(path)}"
    if _is_torchs_script(path):
        return f"{path}, PyTorch's own script, which uses the torch.distributed.run of its Python"
    return f"{path}, not a link to cpprun"


def _module_text() -> str:
    if not _has_torch():
        return f"not found: {sys.executable} has no torch"
    pths = _pth_files()
    if not _IS_HOOKED and pths:
        return f"PyTorch's own: Python ignored {pths[0]} when it started"
    if not _IS_HOOKED:
        return f"PyTorch's own; to use cpprun: {_command('install')}"
    if _torchrun.is_off():
        return f"PyTorch's own, because of {_torchrun.SWITCH}=off; without it: cpprun"
    return f"cpprun, because of {pths[0] if pths else 'an import of cpprun._torchrun'}"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"cpprun: error: {message}\n  hint: {_command('--help')}\n")


def main() -> None:
    parser = _Parser(
        prog="python -m cpprun.shim", allow_abbrev=False,
        description="Use cpprun where programs call torchrun or, in-process, "
        f"torch.distributed.run. {_torchrun.SWITCH}=off turns the latter off for one command.")
    parser.add_argument("command", choices=["install", "remove", "status"],
                        help="install, or remove what was installed, or show what is used now")
    parser.add_argument("directory", metavar="DIR", nargs="?",
                        help="directory on PATH for the link torchrun -> cpprun")
    words = parser.parse_args()
    {"install": install, "remove": remove, "status": status}[words.command](words.directory)


if __name__ == "__main__":
    main()
