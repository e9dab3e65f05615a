# SPDX-License-Identifier: Apache-2.0
"""What a user of the web console changes: sessions, leadership and znodes; and who may."""

import contextlib
import os
import signal
import tempfile

import harness
import web
import zkwire as zk
from pages import await_page, browser, open_path, text
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

TOKEN = "console-test-token-of-an-administrator"
SESSIONS = 60
SCRIPT = "<img src=x onerror=alert(1)>"


def one(driver, name):
    return driver.find_element(By.ID, name)


def is_open(driver):
    return driver.execute_script("return document.getElementById('dialog').open")


def dialog(driver):
    await_page(driver, "the dialog", lambda: is_open(driver))


def confirm(driver):
    dialog(driver)
    one(driver, "dialog-act").click()
    await_page(driver, "the change is made", lambda: not is_open(driver) or text(driver, "dialog-error"))
    assert not is_open(driver), text(driver, "dialog-error")


def press(driver, label):
    """Presses the button with this name. The tables with buttons are read again now and then, so it is done in one step."""
    return driver.execute_script("""
        const found = [...document.querySelectorAll('button')].find((one) => one.ariaLabel === arguments[0]);
        if (found) { found.focus(); found.click(); }
        return Boolean(found);""", label)


def await_focus(driver, name, value):
    """The focus is given back when the browser tells the page that a dialog was closed, which is after it was closed."""
    await_page(driver, f"the focus is at what has {value} as its {name}", lambda: driver.execute_script(
        "return document.activeElement[arguments[0]]", name) == value)


def sign_in(driver, user, password):
    await_page(driver, "signing in is possible", lambda: one(driver, "password").is_enabled())
    one(driver, "user").clear()
    one(driver, "user").send_keys(user)
    one(driver, "password").send_keys(password, Keys.ENTER)


def hex_of(client):
    return hex(client.session_id & (1 << 64) - 1)


@contextlib.contextmanager
def with_administrator():
    """Yields a server with an administrator's token."""
    with tempfile.TemporaryDirectory(prefix="quorate-console-") as directory:
        path = os.path.join(directory, "tokens")
        with open(path, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(TOKEN)
        with harness.Cluster("quorate", 1, [f"administratorTokenFile={path}"]) as cluster:
            web.await_serving(cluster)
            yield cluster


def shared_sessions_are_shown_in_pages_and_one_is_closed(cluster):
    web.await_serving(cluster)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(zk.Connection(cluster.address(1), timeout_ms=40000)) for _ in range(SESSIONS)]
        clients[0].sync("/")
        with browser(cluster, 1) as driver:
            rows = (By.CSS_SELECTOR, "#sessions tr")
            await_page(driver, "the first page", lambda: len(driver.find_elements(*rows)) == 50)
            assert len(driver.find_elements(By.CSS_SELECTOR, "#connections tr")) == 50
            shown = text(driver, "sessions")
            one(driver, "sessions-next").click()
            await_page(driver, "the second page", lambda: "Page 2" in text(driver, "sessions-message"))
            rest = text(driver, "sessions")
            assert all((hex_of(client) in shown) != (hex_of(client) in rest) for client in clients)
            client = next(client for client in clients if hex_of(client) in rest)
            label = f"Close session {hex_of(client)}"
            assert press(driver, label)
            dialog(driver)
            assert driver.switch_to.active_element.text == "Cancel", "what does nothing has the focus"
            # The button that opened the dialog goes when the table is read again.
            driver.execute_script("window.seen = document.querySelector('#sessions tr')")
            await_page(driver, "the table is read again", lambda: not driver.execute_script("return window.seen.isConnected"))
            driver.switch_to.active_element.send_keys(Keys.ESCAPE)
            await_page(driver, "Escape closes the dialog", lambda: not is_open(driver))
            await_focus(driver, "ariaLabel", label)
            client.ping()
            assert press(driver, label)
            confirm(driver)
            harness.wait_for("the client is closed", lambda: client.is_closed_by_peer(0.1), harness.WAIT_SECONDS)
            await_page(driver, "its row is gone", lambda: hex_of(client) not in text(driver, "sessions"))
            assert not press(driver, label)
        for other in clients:
            if other is not client:
                other.ping()


def shared_the_busiest_client_comes_first(cluster):
    web.await_serving(cluster)
    with zk.Connection(cluster.address(1)) as quiet, zk.Connection(cluster.address(1)) as busy:
        quiet.exists("/")
        with browser(cluster, 1) as driver:
            def is_first():
                for _ in range(50):
                    busy.exists("/")
                return driver.execute_script("""
                    const row = document.querySelector('#connections tr');
                    return row !== null && Number(row.cells[2].textContent) > 0 && row.cells[1].textContent === arguments[0];""",
                                             hex_of(busy))
            await_page(driver, "the busy client is the first", is_first)
            assert hex_of(quiet) in text(driver, "connections")


def test_leadership_is_transferred_and_who_may_be_stopped_is_shown():
    with harness.Cluster("quorate", 3, settings=web.STEADY) as cluster:
        web.await_serving(cluster)
        leader = cluster.leader()
        heir, other = cluster.others(leader)

        def cell(driver, member):
            return driver.execute_script("""
                return document.querySelector(`#members tr[data-key='${arguments[0]}']`)?.cells[4].textContent""", member)

        with browser(cluster, other) as driver:
            await_page(driver, "a follower does not know", lambda: cell(driver, leader) == "known at the leader")
            assert not press(driver, f"Make member {heir} the leader")
        with browser(cluster, leader) as driver:
            await_page(driver, "each may be stopped", lambda: all(cell(driver, i) == "yes" for i in cluster.members))
            assert press(driver, f"Make member {heir} the leader")
            confirm(driver)
            cluster.wait_until("it leads", lambda: cluster.leader() == heir)
            await_page(driver, "the page says so", lambda: f"leader: member {heir}" in text(driver, "summary"))
        with browser(cluster, heir) as driver:
            await_page(driver, "each may be stopped", lambda: all(cell(driver, i) == "yes" for i in cluster.members))
            cluster.kill(other)
            await_page(driver, "none of the two may be stopped", lambda: cell(driver, leader).startswith("no: without"))


def test_members_are_changed_with_a_confirmation_and_what_would_lose_the_quorum_is_refused():
    with harness.Cluster("quorate", 3, settings=web.STEADY) as cluster:
        web.await_serving(cluster)
        leader = cluster.leader()
        leaving, other = cluster.others(leader)
        with open(os.path.join(cluster.member_dir(leader), "zoo.cfg"), encoding="utf-8") as file:
            line = next(text.split("=", 1)[1].strip() for text in file if text.startswith(f"server.{leaving}="))

        def cell(driver, member, number):
            return driver.execute_script("""
                const row = document.querySelector(`#members tr[data-key='${arguments[0]}']`);
                return row === null ? 'none' : row.cells[arguments[1]].textContent;""", member, number)

        def act_on(driver, label):
            await_page(driver, f"the button {label}", lambda: press(driver, label))
            dialog(driver)

        with browser(cluster, other) as driver:
            await_page(driver, "a follower names the leader",
                       lambda: f"at the leader, member {leader}" in text(driver, "members-message"))
            assert not press(driver, f"Remove member {leaving}")
            assert not one(driver, "add-member").is_displayed()
        with browser(cluster, leader) as driver:
            await_page(driver, "each is safe", lambda: all(cell(driver, i, 4) == "yes" for i in cluster.members))
            assert not press(driver, f"Remove member {leader}")
            # Escape changes nothing.
            act_on(driver, f"Remove member {leaving}")
            ActionChains(driver).send_keys(Keys.ESCAPE).perform()
            await_page(driver, "the dialog is closed", lambda: not is_open(driver))
            assert cell(driver, leaving, 1) == "follower"
            act_on(driver, f"Take the vote of member {leaving}")
            confirm(driver)
            await_page(driver, "it is an observer", lambda: cell(driver, leaving, 1) == "observer")
            act_on(driver, f"Remove member {leaving}")
            confirm(driver)
            await_page(driver, "it is no member", lambda: cell(driver, leaving, 1) == "none")
            await_page(driver, "another change may be made", lambda: one(driver, "add-member").is_enabled())
            one(driver, "add-member").click()
            dialog(driver)
            number, addresses = driver.find_elements(By.CSS_SELECTOR, "#dialog-fields input")
            number.send_keys(str(leaving))
            addresses.send_keys("nonsense")
            one(driver, "dialog-act").click()
            await_page(driver, "it is refused", lambda: "nonsense" in text(driver, "dialog-error"))
            addresses.clear()
            addresses.send_keys(line)
            confirm(driver)
            await_page(driver, "it is a member again", lambda: cell(driver, leaving, 1) == "observer")
            await_page(driver, "it has caught up", lambda: cell(driver, leaving, 2) == "reachable")
            act_on(driver, f"Give member {leaving} a vote")
            confirm(driver)
            await_page(driver, "it has a vote", lambda: cell(driver, leaving, 1) == "follower")
            await_page(driver, "each is safe again", lambda: all(cell(driver, i, 4) == "yes" for i in cluster.members))
            cluster.kill(other)
            await_page(driver, "the page knows", lambda: cell(driver, other, 2) == "unreachable")
            act_on(driver, f"Remove member {leaving}")
            one(driver, "dialog-act").click()
            await_page(driver, "it is refused",
                       lambda: "1 of 2 voters would be up to date" in text(driver, "dialog-error"))
            assert is_open(driver)
        assert web.get(cluster, "/health/ready", leader).status == 200


def test_what_may_be_done_depends_on_who_has_signed_in():
    with with_administrator() as cluster, zk.Connection(cluster.address(1)) as client, browser(cluster, 1) as driver:
        await_page(driver, "nobody yet", lambda: "You may only read" in text(driver, "identity"))
        assert not one(driver, "clients").is_displayed()
        assert not any(one(driver, name).is_enabled() for name in ("edit", "create", "delete"))
        assert "Read-only" in text(driver, "changes-message")
        sign_in(driver, "", "wrong" * 5)
        await_page(driver, "a wrong token is refused", lambda: "not signed in" in text(driver, "sign-in-message"))
        sign_in(driver, "ann", "p")
        await_page(driver, "a user", lambda: "digest:ann" in text(driver, "identity"))
        await_page(driver, "may change znodes", lambda: one(driver, "create").is_enabled())
        assert not one(driver, "clients").is_displayed()
        one(driver, "sign-out").click()
        await_page(driver, "nobody again", lambda: "You may only read" in text(driver, "identity"))
        assert not one(driver, "create").is_enabled()
        sign_in(driver, "", TOKEN)
        await_page(driver, "an administrator", lambda: hex_of(client) in text(driver, "sessions"))
        assert driver.execute_script("return document.cookie.length + localStorage.length + sessionStorage.length") == 0
        driver.refresh()
        await_page(driver, "a new page knows nobody", lambda: "You may only read" in text(driver, "identity"))


def act(driver, name):
    """Presses a button of the shown znode."""
    await_page(driver, f"{name} is possible", lambda: one(driver, name).is_enabled())
    one(driver, name).click()
    dialog(driver)


def shared_a_znode_is_created_edited_and_deleted(cluster):
    web.await_serving(cluster)
    with zk.Connection(cluster.address(1)) as client, browser(cluster, 1) as driver:
        await_page(driver, "the root", lambda: text(driver, "node-heading") == "/")
        act(driver, "create")
        assert driver.switch_to.active_element.get_attribute("id") == "new-name", "what is to be typed has the focus"
        one(driver, "new-name").send_keys("made|here")
        one(driver, "new-data").send_keys(SCRIPT)
        confirm(driver)
        await_page(driver, "it is shown", lambda: text(driver, "node-heading") == "/made|here" and text(driver, "data") == SCRIPT)
        assert not driver.find_elements(By.CSS_SELECTOR, "main img, dialog img")
        assert client.get("/made|here")[0] == SCRIPT.encode()
        act(driver, "edit")
        assert one(driver, "new-data").get_property("value") == SCRIPT
        one(driver, "new-data").clear()
        one(driver, "new-data").send_keys("by the page")
        # Another client is first.
        client.set("/made|here", b"by another", 0)
        one(driver, "dialog-act").click()
        await_page(driver, "the version has changed", lambda: "was changed" in text(driver, "dialog-error"))
        assert is_open(driver) and one(driver, "new-data").get_property("value") == "by the page", "nothing typed is lost"
        assert client.get("/made|here")[0] == b"by another"
        one(driver, "new-data").send_keys(Keys.ESCAPE)
        await_page(driver, "Escape closes the dialog", lambda: not is_open(driver))
        await_focus(driver, "id", "edit")
        open_path(driver, "/made|here")
        await_page(driver, "what the other wrote", lambda: text(driver, "data") == "by another")
        act(driver, "edit")
        one(driver, "new-data").clear()
        one(driver, "new-data").send_keys("00 fg")
        driver.execute_script("document.getElementById('new-form').value = 'hex'")
        one(driver, "dialog-act").click()
        await_page(driver, "no hex", lambda: "hex needs" in text(driver, "dialog-error"))
        one(driver, "new-data").clear()
        one(driver, "new-data").send_keys("00 ff\n7f")
        confirm(driver)
        assert client.get("/made|here")[0] == b"\x00\xff\x7f"
        await_page(driver, "it is shown", lambda: text(driver, "stat") and one(driver, "edit").is_enabled())
        act(driver, "edit")
        assert one(driver, "new-form").get_property("value") == "hex", "bytes that are no text are not edited as one"
        assert one(driver, "new-data").get_property("value") == "00 ff 7f"
        one(driver, "dialog-cancel").click()
        act(driver, "delete")
        assert driver.switch_to.active_element.text == "Cancel"
        one(driver, "dialog-cancel").click()
        assert client.exists("/made|here").version == 2
        act(driver, "delete")
        confirm(driver)
        assert client.exists("/made|here") is None
        await_page(driver, "the znode above it", lambda: text(driver, "node-heading") == "/")
        await_page(driver, "is without it", lambda: "zookeeper" in text(driver, "children"))
        assert "made" not in text(driver, "children")


def shared_ends_of_lines_that_a_text_area_would_change_are_edited_as_hex(cluster):
    web.await_serving(cluster)
    with zk.Connection(cluster.address(1)) as client, browser(cluster, 1) as driver:
        for data, form, typed in ((b"a\rb\rc", "hex", "61 0d 62 0d 63"), (b"a\r\nb", "hex", "61 0d 0a 62"),
                                  (b"a\nb", "text", "a\nb")):
            client.create("/ends", data)
            client.sync("/")
            open_path(driver, "/ends")
            act(driver, "edit")
            shown = [one(driver, name).get_property("value") for name in ("new-form", "new-data")]
            assert shown == [form, typed], f"{data}: {shown}"
            confirm(driver)
            assert client.get("/ends")[0] == data
            client.delete("/ends")


def test_a_change_under_way_keeps_its_dialog_and_leaves_the_next_one_alone():
    with harness.Cluster("quorate", 1, settings=web.STEADY) as cluster, browser(cluster, 1) as driver:
        web.await_serving(cluster)
        act(driver, "create")
        one(driver, "new-name").send_keys("first")
        server, = cluster.pids()
        os.kill(server, signal.SIGSTOP)
        try:
            one(driver, "dialog-act").click()
            await_page(driver, "the change is under way", lambda: "under way" in text(driver, "dialog-state"))
            ActionChains(driver).send_keys(Keys.ESCAPE, Keys.ESCAPE).perform()
            assert is_open(driver), "a change under way is not cancelled, and Escape does not look as if it were"
            assert not any(one(driver, name).is_enabled() for name in ("dialog-act", "dialog-cancel"))
            # As a browser may nevertheless, such as by a gesture.
            driver.execute_script("document.getElementById('dialog').close()")
            act(driver, "create")
            assert one(driver, "dialog-act").is_enabled() and not text(driver, "dialog-state")
            one(driver, "new-name").send_keys("second")
        finally:
            os.kill(server, signal.SIGCONT)
        await_page(driver, "the first is made", lambda: text(driver, "outcome") == '"Create a znode below /" is done.')
        assert is_open(driver) and one(driver, "new-name").get_property("value") == "second", "the second is left alone"
        confirm(driver)
        with zk.Connection(cluster.address(1)) as client:
            assert client.exists("/first") and client.exists("/second")


def shared_who_watches_and_who_owns_a_znode_is_shown(cluster):
    web.await_serving(cluster)
    with zk.Connection(cluster.address(1)) as client, browser(cluster, 1) as driver:
        client.create("/watched", b"", zk.EPHEMERAL)
        client.exists("/watched", watch=True)
        client.children("/watched", watch=True)
        open_path(driver, "/watched")
        await_page(driver, "both watches", lambda: f"session {hex_of(client)} (node), session {hex_of(client)} (children)"
                   in text(driver, "stat"))
        assert f"ownersession {hex_of(client)} at server 1" in text(driver, "stat"), text(driver, "stat")


def test_a_user_writes_what_the_list_allows():
    with with_administrator() as cluster, browser(cluster, 1) as driver:
        sign_in(driver, "ann", "p")
        await_page(driver, "ann", lambda: "digest:ann" in text(driver, "identity"))
        act(driver, "create")
        one(driver, "new-name").send_keys("hers")
        one(driver, "new-data").send_keys("x")
        driver.execute_script("document.getElementById('new-acl').value = 'readers'")
        confirm(driver)
        await_page(driver, "her list", lambda: "digest:ann:cdrwa, world:anyone:r" in text(driver, "stat"))
        sign_in(driver, "bob", "p")
        await_page(driver, "bob", lambda: "digest:bob" in text(driver, "identity"))
        await_page(driver, "what bob reads", lambda: text(driver, "data") == "x")
        act(driver, "edit")
        one(driver, "dialog-act").click()
        await_page(driver, "bob may not write", lambda: "does not let you" in text(driver, "dialog-error"))
        assert is_open(driver)
