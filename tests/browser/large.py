# SPDX-License-Identifier: Apache-2.0
"""The web console over a znode with very many children: what it reads and keeps is a page, however many there are."""

import json
import time

import harness
import web
import zkwire as zk
from pages import await_page, browser, open_path, text
from selenium.webdriver.common.by import By

CHILDREN = 100_000
LONG = 1_000_000
PER_MULTI = 1000
LISTED_MAX = 500
PAGE_BYTES_MAX = 64 << 10
children = CHILDREN  # or LONG


def fill(cluster):
    with zk.Connection(cluster.address(1), timeout_ms=40000, timeout=60) as client:
        client.create("/large", b"")
        for first in range(0, children, PER_MULTI):
            client.call(zk.MULTI, zk.request_multi([
                (zk.CREATE, zk.request_create(f"/large/n{number:07}", b"")) for number in range(first, first + PER_MULTI)]))
        assert client.exists("/large").num_children == children


def test_a_large_directory_is_shown_and_searched_page_by_page():
    with harness.Cluster("quorate", 1) as cluster:
        web.await_serving(cluster)
        fill(cluster)
        for query, count in (("", 100), ("&limit=500", 500), (f"&after=n{children - 3:07}", 2), ("&prefix=n00999", 100)):
            answer = web.get(cluster, f"/console/api/children?path=/large{query}")
            assert len(json.loads(answer.text)["children"]) == count and len(answer.text) < PAGE_BYTES_MAX, answer.text[:200]
        with browser(cluster, 1) as driver:
            begun = time.monotonic()
            open_path(driver, "/large")
            await_page(driver, "the first page", lambda: f"100 of {children} " in text(driver, "tree-message"))
            took = time.monotonic() - begun
            for page in range(2, 9):
                driver.find_element(By.ID, "more").click()
                last = f"n{page * 100 - 1:07}"
                await_page(driver, f"page {page}", lambda last=last: last in text(driver, "children"))
            listed = driver.execute_script("return document.getElementById('children').childElementCount")
            assert listed == LISTED_MAX and "n0000299" not in text(driver, "children"), listed
            field = driver.find_element(By.ID, "prefix")
            field.send_keys(f"n{children - 1:07}", "\n")
            await_page(driver, "the last one", lambda: text(driver, "children") == f"n{children - 1:07}")
        cluster.check_alive()
        return f"{children} children, the first page after {took:.1f} s"
