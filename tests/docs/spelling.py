# SPDX-License-Identifier: Apache-2.0
"""The prose of all pages is spelt correctly: aspell knows its words, apart from the terms in words.txt, and codespell finds no
common mistake."""

import os
import pathlib
import re
import subprocess

import site_pages

WORDS = pathlib.Path(__file__).resolve().parent / "words.txt"
# What is not prose: code in a line, targets of links, and HTML; then paths and addresses; then names of code.
NOT_PROSE = (re.compile(r"`[^`\n]*`|\]\([^)]*\)|<[^>\n]*>"), re.compile(r"\S+[/_.:]\w+\S*"),
             re.compile(r"\b\w*(?:[a-z][A-Z]|[A-Z]{2}|\d)\w*\b"))


def prose_of(text):
    text = site_pages.without_code(text)
    for pattern in NOT_PROSE:
        text = pattern.sub(" ", text)
    return text


def unknown_to_aspell(text):
    """Returns the words of a text that aspell's British dictionary does not have; a possessive without its 's."""
    words = subprocess.run(["aspell", "list", "--lang=en_GB", "--encoding=utf-8", "--mode=none"], input=text, check=True,
                           capture_output=True, text=True).stdout.split()
    return {re.sub(r"'s$", "", word) for word in words}


def terms():
    return set(line for line in WORDS.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#"))


def misspelt(text, known):
    return {word for word in unknown_to_aspell(prose_of(text)) if word not in known and word.lower() not in known}


def test_a_misspelt_word_is_found_and_code_is_not():
    text = "A [sesion](x.md#sesionn) of `sesionnn` and SessionTabel\n\n    sesionnnn\n\n```sh\nsesionnnnn\n```\n"
    assert misspelt(text, set()) == {"sesion"}, misspelt(text, set())


def test_every_word_is_in_the_dictionary_or_in_the_list_of_terms():
    known = terms()
    problems = [f"{path.relative_to(site_pages.ROOT)}: {word}" for path in site_pages.markdown_files()
                for word in sorted(misspelt(path.read_text(encoding="utf-8"), known))]
    assert not problems, f"correct these words, or add terms to {WORDS.name}:\n" + "\n".join(problems)
    return f"{len(known)} terms"


def test_codespell_finds_no_common_mistake():
    paths = [os.path.relpath(path, site_pages.ROOT) for path in site_pages.markdown_files()]
    result = subprocess.run(["codespell", *paths], cwd=site_pages.ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return f"{len(paths)} pages"
