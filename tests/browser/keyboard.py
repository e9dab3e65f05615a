# SPDX-License-Identifier: Apache-2.0
"""The web console for users of a keyboard and of a screen reader."""

import contextlib

import harness
import web
import zkwire as zk
from actions import hex_of, is_open, one
from pages import await_page, browser, text
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

# The elements that have to be reached by the key Tab, in the order of the page. Those in tables are compared by name, because a
# table replaces its elements whenever it is read again.
STOPS = """
    const name = (one) => one.id || one.ariaLabel || one.textContent;
    return [...document.querySelectorAll('a[href], button, input, select, textarea, [tabindex="0"]')]
        .filter((one) => !one.disabled && one.checkVisibility()).map(name);"""
NOW = """
    const one = document.activeElement;
    const style = getComputedStyle(one);
    return [one.id || one.ariaLabel || one.textContent, style.outlineStyle, one === document.body];"""
# The ratio of the luminances of two colours, as WCAG defines it.
CONTRASTS = """
    const luminance = (text) => {
      const parts = text.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255)
          .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
      return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
    };
    const back = luminance(getComputedStyle(document.body).backgroundColor);
    return [...document.querySelectorAll('body *')].filter((one) => one.checkVisibility() && one.textContent && !one.disabled)
        .map((one) => [one.outerHTML.slice(0, 60), luminance(getComputedStyle(one).color)])
        .map(([what, front]) => [what, (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05)])
        .filter(([, ratio]) => ratio < 4.5);"""


def press(driver, *keys):
    ActionChains(driver).send_keys(*keys).perform()


def await_quiet(driver, client):
    """The page has read everything, so that it has no new controls from here on."""
    await_page(driver, "the session", lambda: hex_of(client) in text(driver, "sessions") and hex_of(client) in
               text(driver, "connections"))
    await_page(driver, "the tree", lambda: "watched by" in text(driver, "stat"))


def test_each_control_is_reached_by_tab_in_its_order_and_shows_the_focus():
    # In a cluster of its own, so that no sessions of other tests end meanwhile.
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(harness.Cluster("quorate", 1))
        web.await_serving(cluster)
        client = stack.enter_context(zk.Connection(cluster.address(1), timeout_ms=40000))
        driver = stack.enter_context(browser(cluster, 1))
        await_quiet(driver, client)
        expected = driver.execute_script(STOPS)
        reached = []
        for _ in range(len(expected) + 5):
            press(driver, Keys.TAB)
            name, outline, is_end = driver.execute_script(NOW)
            if is_end:
                break
            assert outline == "solid", f"{name}: the focus is not to be seen: {outline}"
            reached.append(name)
        assert reached == expected, f"{reached}\n{expected}"
        assert len(reached) > 12, reached
        for name in reversed(expected):
            ActionChains(driver).key_down(Keys.SHIFT).send_keys(Keys.TAB).key_up(Keys.SHIFT).perform()
            assert driver.execute_script(NOW)[0] == name, name
        # The first one skips to the tree.
        press(driver, Keys.ENTER)
        await_page(driver, "the tree has the focus", lambda: driver.execute_script(NOW)[0] == "tree-heading")
        return f"{len(reached)} stops"


def shared_a_znode_is_made_with_the_keyboard_alone(cluster):
    web.await_serving(cluster)
    with zk.Connection(cluster.address(1), timeout_ms=40000) as client, browser(cluster, 1) as driver:
        await_quiet(driver, client)
        for _ in range(100):
            press(driver, Keys.TAB)
            if driver.execute_script(NOW)[0] == "create":
                break
        press(driver, Keys.ENTER)
        await_page(driver, "the dialog", lambda: is_open(driver))
        press(driver, "typed")
        seen = set()
        for _ in range(12):
            press(driver, Keys.TAB)
            seen.add(driver.execute_script(NOW)[0])
            assert driver.execute_script("return document.activeElement.closest('main, header') === null"), "the dialog keeps it"
        assert {"new-name", "new-acl", "new-form", "new-data", "dialog-act", "dialog-cancel"} <= seen, seen
        driver.execute_script("document.getElementById('new-name').focus()")
        press(driver, Keys.ENTER)
        await_page(driver, "it is made", lambda: text(driver, "node-heading") == "/typed")
        assert client.exists("/typed") is not None


def shared_a_screen_reader_is_told_what_everything_is(cluster):
    web.await_serving(cluster)
    with zk.Connection(cluster.address(1), timeout_ms=40000) as client, browser(cluster, 1) as driver:
        await_quiet(driver, client)
        one(driver, "follow").click()
        await_page(driver, "all is shown", lambda: one(driver, "events-table").is_displayed())
        assert driver.execute_script("return document.documentElement.lang") == "en"
        levels = [int(heading.tag_name[1]) for heading in driver.find_elements(By.CSS_SELECTOR, "h1, h2, h3, h4")
                  if heading.is_displayed()]
        assert levels[0] == 1 and all(after - before <= 1 for before, after in zip(levels, levels[1:])), levels
        for table in driver.find_elements(By.CSS_SELECTOR, "table"):
            assert table.find_elements(By.CSS_SELECTOR, "caption"), table.get_attribute("outerHTML")[:80]
            assert all(head.get_attribute("scope") for head in table.find_elements(By.CSS_SELECTOR, "th"))
        roles = {name: one(driver, name).aria_role for name in ("summary", "tree-message", "events-message", "sign-in-message")}
        assert roles == {"summary": "status", "tree-message": "status", "events-message": "status",
                         "sign-in-message": "alert"}, roles
        for chart in driver.find_elements(By.CSS_SELECTOR, "#charts svg"):
            assert chart.aria_role in ("img", "image") and chart.accessible_name, chart.aria_role
        # Buttons that look alike have names that differ.
        names = [button.accessible_name for button in driver.find_elements(By.CSS_SELECTOR, "main button")
                 if button.is_displayed()]
        closing = [name for name in names if name.startswith("Close session")]
        assert all(names) and f"Close session {hex_of(client)}" in closing and "Close" not in names, names
        one(driver, "create").click()
        await_page(driver, "the dialog", lambda: is_open(driver))
        dialog = one(driver, "dialog")
        assert dialog.aria_role == "dialog" and dialog.accessible_name == "Create a znode below /", dialog.accessible_name
        controls = dialog.find_elements(By.CSS_SELECTOR, "input, select, textarea, button")
        unnamed = [control.get_attribute("id") for control in controls if not control.accessible_name]
        assert not unnamed, unnamed


def shared_text_differs_enough_from_what_is_behind_it(cluster):
    web.await_serving(cluster)
    with zk.Connection(cluster.address(1), timeout_ms=40000) as client, browser(cluster, 1) as driver:
        await_quiet(driver, client)
        for scheme in ("light", "dark"):
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia",
                                   {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
            low = driver.execute_script(CONTRASTS)
            assert not low, f"{scheme}: {low}"
