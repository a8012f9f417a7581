# SPDX-License-Identifier: BSD-3-Clause
"""python -m cpprun …: this process becomes the cpprun program."""

import os
import sys

from ._launch import find_program, launch_environment


def main() -> None:
    try:
        program = find_program()
    except FileNotFoundError as error:
        sys.exit(f"cpprun: error: {error}")
    os.execve(program, [program, *sys.argv[1:]], launch_environment())


if __name__ == "__main__":
    main()
