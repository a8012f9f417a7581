#!/bin/sh
# Feeds a log as CTest writes it to tally.awk and compares what is counted, line for line.
set -eu
here=$(dirname "$0")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cat >"$folder/LastTestsFailed.log" <<'LOG'
2:some_fail
4:crashes
6:missing
LOG
cat >"$folder/LastTest.log" <<'LOG'
Start testing: Nov 21 05:04 UTC
1/7 Testing: all_pass
1/7 Test: all_pass
Output:
skipped: no permission to make network namespaces
[doctest] test cases:  5 |  5 passed | 0 failed | 0 skipped
<end of output>
2/7 Testing: some_fail
2/7 Test: some_fail
[doctest] test cases: 10 |  7 passed | 3 failed | 0 skipped
3/7 Test: plain_program
nothing in particular
4/7 Test: crashes
AddressSanitizer: heap-use-after-free
5/7 Test: cannot_run
skipped: no torch
Unable to find executable: missing
6/7 Test: missing
7/7 Test: python
skipped: there is no second python
test_queues (store_clients.Store) ... skipped 'no queues in this torch'
Ran 12 tests in 0.500s
OK (skipped=2)
LOG
cat >"$folder/expected" <<'EXPECTED'
skip suite, all_pass: no permission to make network namespaces
skip suite, cannot_run: no torch
skip suite, python: there is no second python
skip suite, python: 'no queues in this torch'
skip suite, python: by the test program itself
passed 22
failed 5
EXPECTED

awk -v suite=suite -f "$here/tally.awk" \
  "$folder/LastTestsFailed.log" "$folder/LastTest.log" >"$folder/got"
diff "$folder/expected" "$folder/got"
