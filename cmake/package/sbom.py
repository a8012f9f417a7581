#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Prints what the packages are made of, as CycloneDX 1.5: sbom.py VERSION ZIG-VERSION DIRECTORY.

The libraries inside are headers of this machine's packages; dpkg knows their versions.
"""
import datetime
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import urllib.parse
import uuid

# Debian's package, the library's name, its license.
LIBRARIES = [
    ("libasio-dev", "asio", "BSL-1.0"),
    ("libboost-dev", "boost", "BSL-1.0"),
    ("libexpected-dev", "tl-expected", "CC0-1.0"),
    ("libfmt-dev", "fmt", "MIT"),
    ("nlohmann-json3-dev", "nlohmann-json", "MIT"),
]
# What zig contributes: the C++ library and its parts, the C library of static programs.
OF_ZIG = [
    ("libc++", "Apache-2.0 WITH LLVM-exception"),
    ("libc++abi", "Apache-2.0 WITH LLVM-exception"),
    ("libunwind", "Apache-2.0 WITH LLVM-exception"),
    ("compiler-rt", "MIT"),
    ("musl", "MIT"),
]


def said_by(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def version_of(package):
    return said_by("dpkg-query", "-W", "-f", "${Version}", package) or "unknown"


def library(name, version, terms, purl=None):
    entry = {"type": "library", "name": name, "version": version}
    entry["licenses"] = [{"expression": terms}]
    if purl:
        entry["purl"] = purl
    return entry


def of_debian(package, name, terms):
    version = version_of(package)
    place = f"pkg:deb/debian/{package}@{urllib.parse.quote(version, safe='')}"
    return library(name, version, terms, place)


def package_file(path):
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return {
        "type": "file",
        "name": path.name,
        "hashes": [{"alg": "SHA-256", "content": digest}],
    }


def main(version, zig, directory):
    inside = [of_debian(*row) for row in LIBRARIES]
    inside += [library(name, f"zig-{zig}", terms) for name, terms in OF_ZIG]
    # Only in libcpprun_store.so and libcpprun_job.so.
    inside.append(library("libstdc++", said_by("g++", "-dumpfullversion") or "unknown",
                          "GPL-3.0-or-later WITH GCC-exception-3.1"))
    inside += [
        package_file(path)
        for path in sorted(pathlib.Path(directory).iterdir())
        if path.suffix in (".whl", ".deb", ".gz")
    ]
    seconds = int(os.environ["SOURCE_DATE_EPOCH"])
    when = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        # The same content has the same serial number.
        "serialNumber": "urn:uuid:" + str(uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(inside))),
        "version": 1,
        "metadata": {
            "timestamp": when.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application",
                "name": "cpprun",
                "version": version,
                "licenses": [{"expression": "BSD-3-Clause"}],
            },
        },
        "components": inside,
    }
    print(json.dumps(bill, indent=2))


main(*sys.argv[1:])
