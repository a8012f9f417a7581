# SPDX-License-Identifier: BSD-3-Clause
"""Cases about log files and the console."""

import importlib.metadata
import socket

from cases import Case, Differs, both, code, content, error_lines, files, lines, litter, refused
from command_line import invalid

TELL = "{workers}/tell.py"
LOGS = "--log-dir={dir}/logs"
TWO = "--nproc-per-node=2"
NOT_LITTERED = "nothing unrequested is left in the temporary directory"

HOST = socket.gethostname()
SINCE_2_14 = "torchrun has it since 2.14"
TORCH = tuple(int(part) for part in importlib.metadata.version("torch").split(".")[:2])


def since_2_14(**differs):
    """Intended differences from a torchrun that is older, and from no other."""
    return {} if TORCH >= (2, 14) else {
        facet: Differs(theirs, ours, SINCE_2_14) for facet, (theirs, ours) in differs.items()}


CASES = [
    Case("both streams into files", [LOGS, TWO, "-r", "3", TELL, "say=x"],
         both(code, files, lines, content("*/attempt_0/*/stdout.log"),
              content("*/attempt_0/*/stderr.log"))),
    Case("both streams into files and to the console", [LOGS, TWO, "-t3", TELL, "say=x"],
         both(code, files, lines, error_lines, content("*/attempt_0/*/stdout.log"))),
    Case("streams by rank", [LOGS, TWO, "-r", "0:1,1:2", TELL, "say=x"],
         both(files, lines, error_lines)),
    Case("tee by rank, redirects for all", [LOGS, TWO, "--tee=1:3", "--redirect=1", TELL, "say=x"],
         both(files, lines, error_lines)),
    Case("a rank beyond the job", [LOGS, "--tee=7:3", TELL, "say=x"], both(code, files, lines)),
    Case("a log directory and nothing redirected", [LOGS, TWO, TELL, "say=x"],
         both(files, lines, error_lines)),
    Case("an id in the name of the run's directory",
         [LOGS, "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "--rdzv-id=night", "-r1",
          TELL, "say=x"], files),
    invalid("a list of streams that ends in a comma", "-r", "0:1,"),
    invalid("an invalid stream", "-t", "11"),
    invalid("a rank among digits", "-t", "0:1,1"),
    invalid("a filter that is not a list", "--local-ranks-filter=a"),
    Case("a file where the log directory should be", ["--log-dir={workers}/tell.py", TELL],
         refused),
    Case("no logs at all", ["--log-dir=/dev/null", TWO, "-t", "3", TELL, "say=x"],
         both(code, lines, error_lines, litter)),
    Case("a filter on plain consoles", [TWO, "--local-ranks-filter=1", TELL, "say=x"],
         both(code, lines, error_lines)),
    Case("a filter on tee'd consoles",
         [LOGS, TWO, "--local_ranks_filter=0", "-t", "3", TELL, "say=x"],
         both(files, lines, error_lines, content("*/attempt_0/*/stdout.log"))),
    Case("a prefix of one's own", [LOGS, TWO, "-t", "3", "--role=r", TELL, "say=x"],
         both(lines, error_lines),
         env={"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE":
              "[${role_name} ${rank}/$local_rank $$ $other] "}),
    Case("the machine's name in a prefix", [LOGS, "-t", "1", TELL, "say=x"], lines,
         env={"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "[${hostname}] "},
         differs=since_2_14(stdout=(["[${hostname}] x said 0"], [f"[{HOST}] x said 0"]))),
    Case("the flag of a prefix takes precedence over the variable",
         [LOGS, "-t", "1", "--log-line-prefix-template=<${rank}>:", TELL, "say=x"],
         both(code, lines), env={"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "[no] "},
         differs=since_2_14(exit=(2, 0), stdout=([], ["<0>:x said 0"]))),
    Case("a prefix by its PET variable", [LOGS, "-t", "1", TELL, "say=x"], lines,
         env={"PET_LOG_LINE_PREFIX_TEMPLATE": "<$local_rank> "},
         differs=since_2_14(stdout=(["[default0]:x said 0"], ["<0> x said 0"]))),
    Case("chosen lines once more, in one file",
         [LOGS, TWO, "-t", "3", "--duplicate-stdout-filters=1 said,apple",
          "--duplicate-stderr-filters=aloud", TELL, "say=x"],
         both(code, files, lines, content("*/attempt_0/filtered_stdout.log"),
              content("*/attempt_0/filtered_stderr.log"))),
    Case("chosen lines of the filtered ranks",
         [LOGS, TWO, "-t", "1", "--local-ranks-filter=1", "--duplicate-stdout-filters=said",
          TELL, "say=x"], both(files, content("*/attempt_0/filtered_stdout.log"))),
    Case("a comma within a chosen word",
         [LOGS, TWO, "-t", "1", "--duplicate-stdout-filters=no,, such", TELL, "say=x"],
         both(files, content("*/attempt_0/filtered_stdout.log"))),
    Case("chosen lines without a tee",
         [LOGS, TWO, "-r", "1", "--duplicate-stdout-filters=said", TELL, "say=x"],
         both(code, files),
         differs={"files": Differs(
             ["random_X/attempt_0/0/stdout.log", "random_X/attempt_0/1/stdout.log",
              "random_X/attempt_0/filtered_stdout.log"],
             ["random_X/attempt_0/0/stdout.log", "random_X/attempt_0/1/stdout.log"],
             "a file that can only stay empty is not made; a note says why")}),
    Case("nothing asked for leaves nothing behind", [TWO, TELL], litter,
         differs={"temporary files": Differs(
             ["torchelastic_X/random_X/attempt_0/0/", "torchelastic_X/random_X/attempt_0/1/"], [],
             NOT_LITTERED)}),
    Case("tee without a directory", ["-t", "1", TELL, "say=x"], both(lines, litter),
         differs={"temporary files": Differs(
             ["torchelastic_X/random_X/attempt_0/0/stdout.log"], [], NOT_LITTERED)}),
    Case("redirects without a directory", ["-r", "1", TELL, "say=x"], both(lines, litter)),
]
