# SPDX-License-Identifier: Apache-2.0
"""The web console as a user of a browser sees it."""

import contextlib

import harness
import web
import zkwire as zk
from disk_control import slow_disk_cluster
from selenium import webdriver
from selenium.common.exceptions import SessionNotCreatedException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

SCRIPT = "<script>alert(1)</script>".replace("/", "|")  # a name has no slash
CHILDREN = 1200


@contextlib.contextmanager
def browser(cluster, member):
    options = Options()
    options.binary_location = "/usr/bin/chromium"
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    try:
        driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
    except SessionNotCreatedException:
        # chromedriver waits a minute for Chromium, which may take longer to start while other tests run. A page was
        # not loaded yet, so that this hides no fault of the console.
        driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
    try:
        driver.get(f"http://{harness.HOST}:{web.port(cluster, member)}/")
        yield driver
        refused = [entry["message"] for entry in driver.get_log("browser") if "Content Security" in entry["message"]]
        assert not refused, refused
    finally:
        driver.quit()


def await_page(driver, what, condition):
    WebDriverWait(driver, harness.WAIT_SECONDS, poll_frequency=0.05).until(lambda _: condition(), what)


def text(driver, name):
    return driver.execute_script("return document.getElementById(arguments[0]).textContent", name)


def open_path(driver, path):
    field = driver.find_element(By.ID, "path")
    field.clear()
    field.send_keys(path, Keys.ENTER)
    await_page(driver, f"{path} is shown", lambda: text(driver, "node-heading") == path and text(driver, "stat"))


def shared_names_and_data_are_shown_as_text(cluster):
    web.await_serving(cluster)
    with zk.Connection(cluster.address(1)) as client:
        client.create(f"/{SCRIPT}", SCRIPT.encode())
        client.sync("/")
    with browser(cluster, 1) as driver:
        open_path(driver, f"/{SCRIPT}")
        assert text(driver, "data") == SCRIPT, text(driver, "data")
        assert not driver.find_elements(By.CSS_SELECTOR, "main script")
        open_path(driver, "/")
        await_page(driver, "the child is listed", lambda: SCRIPT in text(driver, "children"))


def shared_many_children_are_shown_page_by_page(cluster):
    web.await_serving(cluster)
    with zk.Connection(cluster.address(1)) as client:
        client.create("/many", b"")
        for number in range(CHILDREN):
            client.create(f"/many/n{number:05}", b"")
        client.sync("/")
    with browser(cluster, 1) as driver:
        open_path(driver, "/many")
        await_page(driver, "the first page", lambda: f"100 of {CHILDREN} " in text(driver, "tree-message"))
        driver.find_element(By.ID, "more").click()
        await_page(driver, "the second page", lambda: f"200 of {CHILDREN} " in text(driver, "tree-message"))
        assert "n00199" in text(driver, "children") and "n00200" not in text(driver, "children")
        assert driver.switch_to.active_element.text == "n00100"


def shared_every_control_has_a_name(cluster):
    web.await_serving(cluster)
    with browser(cluster, 1) as driver:
        controls = driver.find_elements(By.CSS_SELECTOR, "input, select, button, nav, article, section")
        unnamed = [control.get_attribute("outerHTML")[:80] for control in controls
                   if control.is_displayed() and not control.accessible_name]
        assert controls and not unnamed, unnamed


def shared_the_page_is_light_or_dark(cluster):
    web.await_serving(cluster)
    with browser(cluster, 1) as driver:
        seen = set()
        for scheme in ("light", "dark"):
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia",
                                   {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
            seen.add(driver.execute_script("return getComputedStyle(document.body).backgroundColor"))
        assert len(seen) == 2, seen


def test_the_overview_follows_a_member_that_is_killed():
    with harness.Cluster("quorate", 3, settings=web.STEADY) as cluster:
        web.await_serving(cluster)
        leader = cluster.leader()
        other = cluster.others(leader)[0]
        with browser(cluster, leader) as driver:
            await_page(driver, "three members", lambda: text(driver, "members").count("reachable") == 3 and
                       "unreachable" not in text(driver, "members"))
            cluster.kill(other)
            await_page(driver, "the problem is named",
                       lambda: f"member {other} cannot be reached" in text(driver, "problems"))
            assert "unreachable" in text(driver, "members")


def test_a_slow_request_is_shown_with_the_stage_that_took_longest():
    with slow_disk_cluster(1, 1, web.STEADY) as (cluster, control), browser(cluster, 1) as driver:
        await_page(driver, "nothing is slow", lambda: "0 requests took 100 ms" in text(driver, "slow-message"))
        assert not driver.find_element(By.ID, "slow").is_displayed()
        control.set(sync_ms=400)
        with zk.Connection(cluster.address(1)) as client:
            client.create(f"/{SCRIPT}", b"x")
        control.set()
        await_page(driver, "it is shown", lambda: driver.find_element(By.ID, "slow").is_displayed())
        row = text(driver, "slow-requests")
        assert f"/{SCRIPT}" in row and "log_write" in row and "create" in row, row
        assert not driver.find_elements(By.CSS_SELECTOR, "main script")
