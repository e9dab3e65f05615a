# SPDX-License-Identifier: Apache-2.0
"""The pages about formats and Raft agree with the code: their blocks stand in the headers that they name, and each frame, message
and magic has its place."""

import pathlib
import re
import textwrap

import harness

ROOT = pathlib.Path(harness.ROOT)
BLOCK = re.compile(r"^From `([\w/.]+)`:\n\n((?:    .*\n|\n(?=    ))+)", re.MULTILINE)


def text_of(path):
    return (ROOT / path).read_text(encoding="utf-8")


def comments_of(path):
    """Returns the text of all comments of a file that begin a line."""
    return "\n".join(re.sub(r"^// ?", "", line) for line in text_of(path).splitlines() if line.startswith("//"))


def without_indent(text):
    return [line.strip() for line in text.strip().splitlines()]


def contains(lines, block):
    return any(lines[at:at + len(block)] == block for at in range(len(lines) - len(block) + 1))


def test_the_blocks_stand_in_the_headers_that_they_name():
    blocks = [(page, path, block) for page in ("docs/formats.md", "docs/raft.md")
              for path, block in BLOCK.findall(text_of(page))]
    assert len(blocks) == 9, f"{len(blocks)} blocks were found"
    for page, path, block in blocks:
        assert contains(without_indent(comments_of(path)), without_indent(textwrap.dedent(block))), (
            f"{page}: this is not in {path}:\n{block}")
    return f"{len(blocks)} blocks"


def test_each_frame_and_message_has_a_row():
    types = re.search(r"enum class FrameType.*?\};", text_of("rpc/peer/frame.cc"), re.DOTALL).group()
    frames = re.findall(r"k(\w+) = \d+", types)
    body = re.search(r"std::variant<(.*?)>", text_of("consensus/core/message.h"), re.DOTALL).group(1)
    messages = re.findall(r"\w+", body)
    table = text_of("docs/formats.md").partition("| type | frame |")[2].partition("\n\n")[0]
    rows = [name for cell in re.findall(r"^\| [\d, ]+ \| ([^|]*) \|", table, re.MULTILINE)
            for name in re.findall(r"`(\w+)`", cell)]
    assert frames and rows == sorted(rows, key=frames.index) and set(rows) == set(frames), (rows, frames)
    listed = re.findall(r"^\| `(\w+)` \|", text_of("docs/raft.md").partition("## Messages")[2], re.MULTILINE)
    assert messages and sorted(listed) == sorted(messages), (listed, messages)
    return f"{len(frames)} frames, {len(messages)} messages"


def test_magics_and_sizes_of_files_are_those_of_the_code():
    page = text_of("docs/formats.md")
    for path in ("consensus/log/segment.cc", "consensus/log/hard_state_file.cc", "consensus/log/membership_file.cc"):
        magic = re.search(r'kMagic = "([^"]*)"', text_of(path)).group(1)
        assert f"magic `{magic}`" in page, f"{path}: {magic}"
    for path, name in (("consensus/log/segment.h", "kSegmentHeaderBytes"),
                       ("consensus/log/hard_state_file.h", "kHardStateCopyBytes")):
        size = int(re.search(rf"{name} = (\d+)", text_of(path)).group(1))
        assert f"of {size:,} bytes" in page, f"{path}: {name}"
