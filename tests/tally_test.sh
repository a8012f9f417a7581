#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Feeds a log as CTest writes it to tally.awk and compares what is counted, line for line.
set -eu
here=$(dirname "$0")
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

cat >"$directory/LastTestsFailed.log" <<'LOG'
2:some_fail
4:crashes
6:missing
LOG
cat >"$directory/LastTest.log" <<'LOG'
Start testing: Nov 21 05:04 UTC
1/8 Testing: all_pass
1/8 Test: all_pass
Output:
/src/all_pass.cpp:43: MESSAGE: skipped: no permission to make network namespaces
[doctest] test cases:  5 |  5 passed | 0 failed | 0 skipped
<end of output>
2/8 Testing: some_fail
2/8 Test: some_fail
[doctest] test cases: 10 |  7 passed | 3 failed | 0 skipped
3/8 Test: plain_program
nothing in particular
4/8 Test: crashes
AddressSanitizer: heap-use-after-free
5/8 Test: cannot_run
skipped: no torch
Unable to find executable: missing
6/8 Test: missing
7/8 Test: python
skipped: there is no second python
test_queues (store_clients.Store) ... skipped 'no queues in this torch'
Ran 12 tests in 0.500s
OK (skipped=2)
8/8 Testing: copied
8/8 Test: copied
[doctest] test cases:  4 |  3 passed | 1 failed | 0 skipped
[doctest] test cases:  5 |  5 passed | 0 failed | 0 skipped
9/9 Testing: flaky
9/9 Test: flaky
[doctest] test cases:  4 |  3 passed | 1 failed | 0 skipped
LOG
cat >"$directory/LastTest-again.log" <<'LOG'
1/2 Testing: flaky
1/2 Test: flaky
skipped: once more
[doctest] test cases:  4 |  4 passed | 0 failed | 0 skipped
2/2 Testing: some_fail
2/2 Test: some_fail
[doctest] test cases: 10 |  8 passed | 2 failed | 0 skipped
LOG
cat >"$directory/expected" <<'EXPECTED'
skip suite, all_pass: no permission to make network namespaces
bad suite, some_fail: 2 failed
bad suite, crashes: 1 failed
skip suite, cannot_run: no torch
bad suite, missing: 1 failed
skip suite, python: there is no second python
skip suite, python: 'no queues in this torch'
skip suite, python: by the test program itself
bad suite, copied: 1 failed
again suite, flaky
skip suite, flaky: once more
passed 34
failed 5
EXPECTED

awk -v suite=suite -f "$here/tally.awk" \
  "$directory/LastTestsFailed.log" "$directory/LastTest.log" "$directory/LastTest-again.log" \
  >"$directory/got"
diff "$directory/expected" "$directory/got"
