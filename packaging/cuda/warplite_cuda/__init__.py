"""Holds the GPU plug-in, which the package warplite finds here."""
