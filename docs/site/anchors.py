# SPDX-License-Identifier: Apache-2.0
"""The anchor of a heading, as hosts of repositories make it, so that a link to it is valid there and in the site."""

import re


def slugify(heading, separator="-"):
    """Returns the anchor of a heading whose marks of Markdown are removed."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)
