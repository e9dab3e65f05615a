# SPDX-License-Identifier: Apache-2.0
"""The site is made without a warning, works without a network, and its links and those of the repository are valid."""

import html.parser
import os
import pathlib
import re
import subprocess
import tempfile

import anchors
import harness

ROOT = pathlib.Path(harness.ROOT)
LOADED = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "src")}
NETWORK = re.compile(r"(https?:)?//", re.IGNORECASE)


def markdown_files():
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], check=True,
                            capture_output=True, text=True).stdout.split()
    return [ROOT / path for path in listed]


def without_code(text):
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"^    .*$", "", text, flags=re.MULTILINE)


def anchors_of(path):
    """Returns the anchors of the headings of a Markdown file; a repeated one has a number, as hosts of repositories give it."""
    found, counts = set(), {}
    for heading in re.findall(r"^#+ +(.*)$", without_code(path.read_text(encoding="utf-8")), re.MULTILINE):
        name = anchors.slugify(re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading))
        counts[name] = counts.get(name, -1) + 1
        found.add(f"{name}-{counts[name]}" if counts[name] else name)
    return found


def problem_with(path, target):
    """Returns what is wrong with a link of a Markdown file, or ""."""
    if re.match(r"[a-z]+:", target):
        return ""
    file, _, anchor = target.partition("#")
    found = pathlib.Path(os.path.normpath(path.parent / file)) if file else path
    if not found.exists():
        return f"{path.relative_to(ROOT)}: there is no file {target}"
    if anchor and found.suffix == ".md" and anchor not in anchors_of(found):
        return f"{path.relative_to(ROOT)}: there is no heading {target}"
    return ""


def test_every_link_of_the_repository_is_valid():
    links = [(path, target) for path in markdown_files()
             for target in re.findall(r"\]\(([^)\s]+)\)",
                                      re.sub(r"`[^`\n]*`", "", without_code(path.read_text(encoding="utf-8"))))]
    problems = [problem for path, target in links if (problem := problem_with(path, target))]
    assert not problems, "\n".join(problems)
    assert len(links) > 100, f"only {len(links)} links were found: they are not read"
    return f"{len(links)} links"


class Resources(html.parser.HTMLParser):
    """Collects what a page loads, the targets of its links, and its ids."""

    def __init__(self):
        super().__init__()
        self.loaded, self.links, self.ids = [], [], set()

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if (tag, name) in LOADED:
                self.loaded.append(value or "")
            elif (tag, name) == ("a", "href"):
                self.links.append(value or "")
            elif name == "id":
                self.ids.add(value)


def test_the_site_is_made_and_works_without_a_network():
    with tempfile.TemporaryDirectory(prefix="quorate-docs-") as name:
        site = pathlib.Path(name) / "site"
        made = subprocess.run([ROOT / "docs/build", "--output", site], capture_output=True, text=True, check=False)
        assert made.returncode == 0 and not made.stderr, made.stdout + made.stderr
        pages = {}
        for path in site.rglob("*.html"):
            pages[path] = Resources()
            pages[path].feed(path.read_text(encoding="utf-8"))
        pages.pop(site / "404.html")  # its links need the address of the site
        problems = [f"{path}: {target} is loaded from the network" for path, page in pages.items()
                    for target in page.loaded if NETWORK.match(target)]
        for path in site.rglob("*.css"):
            style = path.read_text(encoding="utf-8")
            problems += [f"{path}: {target}" for target in re.findall(r"url\([\"']?((?:https?:)?//[^)]*)", style)]
        for path, page in pages.items():
            if 'class="mermaid"' in path.read_text(encoding="utf-8"):
                problems.append(f"{path}: Mermaid is loaded from the network")
            for link in page.links:
                file, _, anchor = link.partition("#")
                found = pathlib.Path(os.path.normpath(path.parent / file)) if file else path
                if re.match(r"[a-z]+:", link):
                    continue
                if not found.exists() or (anchor and found in pages and anchor not in pages[found].ids):
                    problems.append(f"{path.relative_to(site)}: the link {link} leads nowhere")
        assert not problems, "\n".join(problems)
        return f"{len(pages)} pages"


def test_every_markdown_file_is_in_the_navigation():
    navigation = (ROOT / "docs/site/mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    missing = [str(path.relative_to(ROOT)) for path in markdown_files()
               if not re.search(rf"[ ]{re.escape(str(path.relative_to(ROOT)))}$", navigation, re.MULTILINE)]
    assert not missing, f"add to nav of docs/site/mkdocs.yml: {missing}"
