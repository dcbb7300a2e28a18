#!/usr/bin/env python3
"""Runs a command where there is a cuBLAS library, and else says that it is skipped.

    tests/gpu/if_cublas.py COMMAND [ARGUMENT ...]
"""
import ctypes
import os
import sys

try:
    ctypes.CDLL(os.environ.get('WARPLITE_CUBLAS') or 'libcublas.so.13')
except OSError:
    print('skipped: there is no cuBLAS library; LD_LIBRARY_PATH or WARPLITE_CUBLAS can say where it is')
    sys.exit(77)
os.execv(sys.argv[1], sys.argv[1:])
