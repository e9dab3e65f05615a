# SPDX-License-Identifier: Apache-2.0
"""Hooks of mkdocs: anchors and links of the site are those that the files have in the repository."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import anchors  # noqa: E402  (needs the path above)


def on_config(config):
    config["mdx_configs"]["toc"] = {"slugify": anchors.slugify, "permalink": True}
    return config
