# SPDX-License-Identifier: Apache-2.0
"""What the web console shows as it happens: charts and changes of the tree; and that it keeps a bounded part of it."""

import re

import web
import zkwire as zk
from pages import await_page, browser, open_path, text
from selenium.webdriver.common.by import By

SCRIPT = "<b onmouseover=alert(1)>"
EVENTS = 450
KEPT = 200
POINTS = 150


def rows(driver):
    return driver.execute_script("""
        return [...document.querySelectorAll('#events tr')].map((row) => [row.cells[1].textContent, row.cells[2].textContent])""")


def shared_charts_show_rates_and_latencies(cluster):
    web.await_serving(cluster)
    with zk.Connection(cluster.address(1)) as client, browser(cluster, 1) as driver:
        client.create("/charted", b"")

        def are_shown():
            for _ in range(20):
                client.set("/charted", b"x")
            found = re.findall(r"Requests per second: ([\d.]+)|p50 ([\d.]+), p99 ([\d.]+)|log in ms: ([\d.]+)|GiB: ([\d.]+)",
                               text(driver, "charts"))
            values = [float(value) for group in found for value in group if value]
            return len(values) == 5 and all(value > 0 for value in values) and values[1] <= values[2]
        await_page(driver, "all values", are_shown)
        labels = driver.execute_script("return [...document.querySelectorAll('#charts svg')].map((one) => one.ariaLabel)")
        assert len(labels) == 4 and all("highest" in label for label in labels), labels
        # As if the page was open for long.
        driver.set_script_timeout(60)
        points = driver.execute_async_script("""
            const done = arguments[arguments.length - 1];
            import('/console/charts.js').then(async ({refreshCharts}) => {
              for (let i = 0; i < 200; ++i) await refreshCharts();
              done(document.querySelector('#charts figure:last-child path').getAttribute('d').match(/[ML]/g).length);
            });""")
        assert points == POINTS, points


def shared_changes_below_a_znode_are_shown_as_they_happen(cluster):
    web.await_serving(cluster)
    with zk.Connection(cluster.address(1)) as client, browser(cluster, 1) as driver:
        client.create("/followed", b"")
        client.create("/followed-not", b"")
        client.sync("/")
        open_path(driver, "/followed")
        driver.find_element(By.ID, "follow").click()
        await_page(driver, "it is followed", lambda: "0 seen" in text(driver, "events-message"))
        client.create("/followed-not/a", b"")
        client.create(f"/followed/{SCRIPT}", b"")
        client.set(f"/followed/{SCRIPT}", b"x")
        client.delete(f"/followed/{SCRIPT}")
        client.set("/followed", b"x")
        await_page(driver, "four changes", lambda: "4 seen" in text(driver, "events-message"))
        path = f"/followed/{SCRIPT}"
        assert rows(driver) == [["changed", "/followed"], ["deleted", path], ["changed", path], ["created", path]], rows(driver)
        assert not driver.find_elements(By.CSS_SELECTOR, "#events b")
        for number in range(EVENTS):
            client.submit(zk.CREATE, zk.request_create(f"/followed/n{number:04}", b""))
        for _ in range(EVENTS):
            client.receive()
        await_page(driver, "the last one", lambda: rows(driver)[0][1] == f"/followed/n{EVENTS - 1:04}")
        assert len(rows(driver)) == KEPT, len(rows(driver))
        driver.find_element(By.ID, "follow").click()
        client.set("/followed", b"y")
        client.sync("/")
        await_page(driver, "nothing is followed", lambda: not driver.find_element(By.ID, "events-table").is_displayed())
