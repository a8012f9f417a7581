#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes digits.bin, in the form that README.md describes, from the copy of the UCI digits that
scikit-learn ships. Needed only to make the file again: pip install scikit-learn."""

import struct
import sys

from sklearn.datasets import load_digits

digits = load_digits()
images = digits.images.astype("uint8")
labels = digits.target.astype("uint8")
if (images != digits.images).any() or images.max() > 16 or labels.max() > 9:
    sys.exit("unexpected data: pixels must be whole numbers from 0 to 16, labels from 0 to 9")
path = sys.argv[1] if len(sys.argv) > 1 else "digits.bin"
with open(path, "wb") as file:
    file.write(b"DIGITS01")
    file.write(struct.pack("<IIII", *images.shape, 10))
    file.write(images.tobytes())
    file.write(labels.tobytes())
print(f"{path}: {len(labels)} images of {images.shape[1]} x {images.shape[2]}")
