"""A wheel that holds a native library is one platform's, which WARPLITE_WHEEL_PLATFORM names."""

from __future__ import annotations

import os
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PlatformHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        platform = os.environ.get("WARPLITE_WHEEL_PLATFORM")
        if platform:
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform}"
        if self.metadata.name == "warplite-cuda":  # the library refuses a plug-in of another release
            build_data["dependencies"].append(f"warplite=={self.metadata.version}")
