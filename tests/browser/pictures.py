# SPDX-License-Identifier: Apache-2.0
"""The pictures of the console and of `quorate top` in docs/pictures. Beside each is the text that it shows, which has to be that
of the program now, but for numbers and for who leads. `tests/browser/run --write-pictures` makes both again."""

import contextlib
import difflib
import html
import os
import pathlib
import re
import subprocess
import tempfile

import administration
import harness
import pages
import quorate_cli
import web
import zkwire as zk

DIRECTORY = pathlib.Path(harness.ROOT) / "docs/pictures"
WIDTH, HEIGHT = 1240, 1100
CHART_POINTS = 6
REQUESTS = 1000  # of each member, before a picture of its load is taken
writes = False  # whether pictures are made again

TERMINAL = """<!DOCTYPE html><meta charset="utf-8"><body style="margin:0;background:#1d2530">
<pre style="margin:0;padding:16px;color:#e6e9ee;font:14px monospace;display:inline-block">{}</pre>"""


def normal(text):
    """Returns the lines of a picture's text without what varies: numbers with their units, roles, and blank space."""
    text = text.replace(" (this server)", "").replace(" Make leader", "").replace("<1 ms", "1 ms")
    text = re.sub(r"\b(leader|follower)\b", "ROLE", text)
    text = re.sub(r"\b0x[0-9a-f]+|\b[0-9a-f]{7,}\b|\d+([.,:-]\d+)*", "N", text)
    text = re.sub(r"(?<=\s)-(?=\s|,|$)", "N", text)  # nothing was measured
    text = re.sub(r"\bN ?(B|[KMGT]iB|ms|us|s|min|h|d|%)(?=\W|$)( N (ms|s|min|h)\b)*", "N", text)
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def check(name, driver, text, element):
    """Compares a picture's text with the one that is kept, or writes the picture and its text."""
    kept = DIRECTORY / f"{name}.txt"
    if writes:
        DIRECTORY.mkdir(exist_ok=True)
        driver.find_element("css selector", element).screenshot(str(DIRECTORY / f"{name}.png"))
        kept.write_text(text + "\n", encoding="utf-8")
        return "written"
    shown, now = normal(kept.read_text(encoding="utf-8")), normal(text)
    assert shown == now, "the picture is not true any more; run tests/browser/run --write-pictures:\n" + "\n".join(
        difflib.unified_diff(shown, now, f"docs/pictures/{name}.txt", "now", lineterm=""))
    assert (DIRECTORY / f"{name}.png").stat().st_size > 10_000, "there is no picture"
    return f"{len(now)} lines"


def set_size(driver):
    driver.set_window_size(WIDTH, HEIGHT)
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "light"}]})


def make_tree(client):
    for path, data in (("/orders", b'{"limit": 100, "region": "north"}'), ("/orders/config", b""), ("/orders/locks", b""),
                       ("/orders/members", b"")):
        client.create(path, data)
    client.sync("/")


@contextlib.contextmanager
def under_load(cluster):
    """Lets clients read and write meanwhile."""
    load = subprocess.Popen([quorate_cli.PROGRAM, "bench", "mix", "--servers", cluster.hosts(), "--connections", "12",
                             "--seconds", "60"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        cluster.wait_until("clients are served", lambda: all(
            int(web.command(cluster, "monitor", member)["packets_received"]) > REQUESTS for member in cluster.members))
        yield
    finally:
        load.kill()
        load.wait()


def test_the_picture_of_the_console_is_true():
    # A cluster of its own, which has one client.
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(harness.Cluster("quorate", 3, settings=[*web.STEADY, "slowRequestThresholdMs=60000"]))
        web.await_serving(cluster)
        # The leader's row has no buttons that take its vote or remove it, so the same member leads in each picture.
        leader = max(cluster.members)
        if cluster.leader() != leader:
            administration.transfer_leadership(cluster.grpc(cluster.leader()), leader)
            cluster.wait_until("it leads", lambda: cluster.leader() == leader)
        client = stack.enter_context(zk.Connection(cluster.address(leader), timeout_ms=40000))
        make_tree(client)
        driver = stack.enter_context(pages.browser(cluster, leader))
        set_size(driver)
        pages.await_page(driver, "three members", lambda: pages.text(driver, "members").count("reachable") == 3 and
                         "unreachable" not in pages.text(driver, "members"))
        pages.await_page(driver, "the client", lambda: driver.find_elements("css selector", "#sessions tr, #connections tr")[1:])

        def has_charts():
            for _ in range(20):
                client.set("/orders", b'{"limit": 100, "region": "north"}')
            path = driver.execute_script("return document.querySelector('#charts path')?.getAttribute('d') ?? ''")
            return len(re.findall("[ML]", path)) > CHART_POINTS
        pages.await_page(driver, "charts", has_charts)
        pages.open_path(driver, "/orders")
        pages.await_page(driver, "its children", lambda: "members" in pages.text(driver, "children"))
        pages.await_page(driver, "who watches", lambda: "watched by" in pages.text(driver, "stat"))
        # The followers may have been behind for a moment.
        pages.await_page(driver, "each may be stopped", lambda: pages.text(driver, "members").count("yes") == 3 and
                         "behind" not in pages.text(driver, "members"))
        # Problems are of this machine: its memory, its disk.
        driver.execute_script("document.getElementById('problems').hidden = true; document.activeElement.blur()")
        # A picture of what is higher than the window would be cut.
        driver.set_window_size(WIDTH, HEIGHT + driver.execute_script("return document.documentElement.scrollHeight"))
        return check("console", driver, driver.find_element("css selector", "main").text, "main")


def shared_the_picture_of_top_is_true(cluster):
    web.await_serving(cluster)
    with under_load(cluster):
        top = quorate_cli.run("--server", cluster.grpc(), "top", "--interval", "2", "--count", "1")
    assert top.returncode == 0, top.stderr
    command = "$ quorate top\n"
    with tempfile.TemporaryDirectory(prefix="quorate-pictures-") as directory:
        page = os.path.join(directory, "top.html")
        with open(page, "w", encoding="utf-8") as file:
            file.write(TERMINAL.format(html.escape(command + top.stdout.rstrip())))
        with pages.browser(cluster, 1) as driver:
            set_size(driver)
            driver.get(f"file://{page}")
            text = driver.execute_script("return document.body.innerText")
            assert text.split() == (command + top.stdout).split(), "the picture has another text than the program"
            return check("top", driver, text, "pre")


def test_a_changed_word_is_seen_and_a_number_is_not():
    assert normal("2  leader  up  4 min 2 s  6.7 KiB  0x1f") == normal("2 follower up 7 s 512 B 0x20")
    assert normal("2  leader  up") != normal("2  leader  down")
    assert normal("2  leader  <1 ms  -") == normal("2  follower  24 ms  7 ms")
    assert normal("READS/S  12") != normal("READS/MIN  12")
