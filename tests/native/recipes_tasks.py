# SPDX-License-Identifier: Apache-2.0
"""Tests the client's recipes for work that is handed out or done once: queues with leases and with ids, rollouts, an
outbox, and the reaper of empty directories (recipes/tasks_worker.cc). Workers and members are killed and stopped
meanwhile (recipes_data.py has the scene)."""

import collections
import os

import recipes_data
from recipes_data import of_event

WORKER = os.environ.get("TASKS_WORKER", os.path.join(recipes_data.PROGRAMS, "tasks_worker"))
AT_A_TIME = 2  # members in their steps, as in tasks_worker.cc
# The least number of such events, so that a test has seen what it is about.
ITEMS_MIN, AGAIN_MIN, REMOVED_MIN, COMPLETE_MIN, REAPED_MIN, USED_MIN = 50, 3, 5, 2, 20, 50


class Scene(recipes_data.Scene):
    program = WORKER


def words_of(history, event):
    return [line.words[0] for line in of_event(history, event)]


def assert_once(items, what):
    twice = [item for item, count in collections.Counter(items).items() if count > 1]
    assert not twice, f"{what} twice: {twice[:5]}"


def check_jobs(history):
    """Checks that each item was acknowledged once, or that its only acknowledgement without an answer has ended it."""
    offered, acknowledged = words_of(history, "offered"), words_of(history, "acknowledged")
    assert_once(acknowledged, "acknowledged")
    unknown = set(words_of(history, "leased")) - set(words_of(history, "offering"))
    assert not unknown, f"leased and never offered: {list(unknown)[:5]}"
    begun = collections.Counter(words_of(history, "acknowledging"))
    ended = collections.Counter(words_of(history, "acknowledged") + words_of(history, "overtaken"))
    lost = [item for item in set(offered) - set(acknowledged) if begun[item] <= ended[item]]
    assert not lost, f"offered, and not acknowledged by anyone: {lost[:5]}"
    # An item is in the queue until its acknowledgement, and nobody has it after that.
    done = {line.words[0]: line.ns for line in of_event(history, "acknowledged")}
    for line in of_event(history, "leased"):
        assert line.ns < done.get(line.words[0], 1 << 63) or line.worker.stops, (
            f"{line.words[0]} was leased at {line.ns}, after its acknowledgement at {done[line.words[0]]}")
    again = sum(count - 1 for count in collections.Counter(words_of(history, "leased")).values())
    doubt = len(set(offered) - set(acknowledged))
    return len(acknowledged), again, doubt


def alone_items_with_leases_come_back_and_are_acknowledged_once(server):
    with Scene(server) as scene:
        producers = [scene.add("offer-jobs", f"p{i}") for i in range(2)]
        consumers = [scene.add("do-jobs", f"c{i}") for i in range(3)]
        for worker in producers:
            worker.wait_for("offered")
        for worker in consumers:
            worker.wait_for("acknowledged")
        scene.do_mischief(producers + consumers,
                          is_enough=lambda: len(of_event(scene.history(), "acknowledged")) > AGAIN_MIN)
        scene.finish(producers)
        scene.finish(consumers)
        assert_once(words_of(scene.history(), "acknowledged"), "acknowledged")
        scene.add("finish-jobs", "f0").wait(gets_on=True)
        acknowledged, again, doubt = check_jobs(scene.history())
        assert acknowledged > ITEMS_MIN and again > AGAIN_MIN, f"{acknowledged} acknowledged, {again} leased again"
        return f"{acknowledged} items acknowledged, {again} leases more than that, {doubt} in doubt, {scene.note()}"


def check_ids(history, is_over=True):
    """Checks that each item was either taken or removed by its id, or was lost with one who took or removed it."""
    took = words_of(history, "took")
    removed = [line.words[0] for line in of_event(history, "removed") if int(line.words[1]) > 0]
    assert all(int(line.words[1]) <= 1 for line in of_event(history, "removed")), "an id has several items"
    assert_once(took + removed, "taken or removed")
    unknown = set(took + removed) - set(words_of(history, "offering"))
    assert not unknown, f"taken or removed, and never offered: {list(unknown)[:5]}"
    missing = set(words_of(history, "offered")) - set(took) - set(removed)
    answered = collections.Counter(words_of(history, "removed"))
    unanswered = {item for item in words_of(history, "removing") if not answered[item]}
    doubt = recipes_data.in_doubt(history, "taking", "took") if is_over else len(missing)
    lost = missing - unanswered
    assert len(lost) <= doubt, f"{len(lost)} items are lost, and {doubt} takes in doubt: {list(lost)[:5]}"
    return len(took), len(removed), len(missing)


def alone_items_with_ids_are_taken_or_removed(server):
    with Scene(server) as scene:
        producers = [scene.add("offer-ids", f"p{i}") for i in range(2)]
        consumers = [scene.add("consume-ids", f"c{i}") for i in range(2)]
        for worker in producers:
            worker.wait_for("removed")
        for worker in consumers:
            worker.wait_for("took")

        def is_enough():
            took, removed, _ = check_ids(scene.history(), is_over=False)
            return took > ITEMS_MIN and removed > REMOVED_MIN

        scene.do_mischief(producers + consumers, is_enough=is_enough)
        scene.finish(producers)
        scene.finish(consumers)
        scene.add("drain-ids", "d0").wait(gets_on=True)
        took, removed, missing = check_ids(scene.history())
        assert took > ITEMS_MIN and removed > REMOVED_MIN, f"{took} taken, {removed} removed"
        return f"{took} items taken, {removed} removed by their ids, {missing} lost with their consumers, {scene.note()}"


def steps_of(history):
    """Yields the steps of members: (begin, end, rollout, line that has begun it). A step of a process that was killed,
    stopped, or that lost its session ends before that is known, so it ends at its last line before."""
    begun = {}
    last = {}
    for line in history:
        if line.event in ("begun", "ending", "failing", "done", "failed", "overtaken", "lost"):
            if line.event == "begun":
                if line.pid in begun:  # the session was lost in the step before, without a line of history
                    yield begun[line.pid].ns, last[line.pid], begun[line.pid].words[0], begun[line.pid]
                begun[line.pid] = line
            elif line.pid in begun and line.event != "lost":
                if line.event in ("ending", "failing"):
                    last[line.pid] = line.ns
                    continue
                start = begun.pop(line.pid)
                yield start.ns, last[line.pid] if line.event == "overtaken" else line.ns, start.words[0], start
            elif line.pid in begun:
                start = begun.pop(line.pid)
                yield start.ns, start.ns, start.words[0], start
            last[line.pid] = line.ns
    for start in begun.values():
        yield start.ns, start.ns, start.words[0], start


def check_rollouts(history, members):
    """Checks that at most AT_A_TIME members are in their steps at a time, and that each member has done each complete
    rollout once."""
    current = []
    for begin, end, generation, line in sorted(steps_of(history), key=lambda step: step[:2]):
        current = [step for step in current if step[1] > begin] + [(begin, end, generation, line)]
        if line.worker.stops:  # what a stopped process does at its end is late
            current.pop()
        assert len(current) <= AT_A_TIME, f"in their steps at the same time: {[step[3] for step in current]}"
    done = collections.Counter((line.worker.name, line.words[0]) for line in of_event(history, "done"))
    assert_once(done.elements(), "done")
    ending = {(line.worker.name, line.words[0]) for line in of_event(history, "ending")}
    complete = set(words_of(history, "complete"))
    for generation in complete:
        for member in members:
            assert (member, generation) in ending, f"rollout {generation} is complete without {member}"
    return len(complete), len(of_event(history, "failed")), sum(done.values())


def alone_rollouts_have_few_members_in_their_steps(server):
    members = [f"m{i}" for i in range(4)]
    with Scene(server) as scene:
        workers = [scene.add("step", name, "--members", len(members)) for name in members]
        operator = scene.add("operate", "o0", "--members", len(members))
        operator.wait_for("complete")

        def is_enough():
            complete, failed, _ = check_rollouts(scene.history(), members)
            return complete >= COMPLETE_MIN and failed

        scene.do_mischief(workers + [operator], is_enough=is_enough)
        before = len(of_event(operator.history(), "complete"))
        operator.wait_for("complete", before + 1)
        scene.finish([operator])
        scene.finish(workers)
        complete, failed, done = check_rollouts(scene.history(), members)
        assert complete >= COMPLETE_MIN and failed, f"{complete} rollouts, {failed} failures"
        return f"{complete} rollouts, {done} steps, {failed} stopped by failures, {scene.note()}"


def received(history):
    """Returns what a receiver has taken that refuses smaller tokens than it has seen, and messages that it knows: the
    messages in their order, and how many deliveries it has refused."""
    token, taken, known, refused = 0, [], set(), 0
    for line in of_event(history, "delivering"):
        message, name, zxid, own = line.words[0], line.words[1], int(line.words[2]), int(line.words[3])
        if own < token or (zxid, name) in known:
            refused += 1
            continue
        token = own
        known.add((zxid, name))
        if taken:
            assert (zxid, name) > taken[-1][:2], f"{line} comes after {taken[-1]}"
        taken.append((zxid, name, message))
    return [message for _, _, message in taken], refused


def check_messages(history, is_over=True):
    messages, refused = received(history)
    assert_once(messages, "received")
    unknown = set(messages) - set(words_of(history, "adding"))
    assert not unknown, f"received, and never added: {list(unknown)[:5]}"
    if is_over:
        # A znode that was written together with a message shows that the transaction was made.
        made = set(words_of(history, "added") + words_of(history, "found"))
        lost = made - set(messages)
        assert not lost, f"added, and never received: {list(lost)[:5]}"
    return len(messages), refused


def alone_an_outbox_delivers_what_its_transactions_say(server):
    with Scene(server) as scene:
        writers = [scene.add("add-messages", f"w{i}") for i in range(2)]
        relays = [scene.add("relay", f"r{i}") for i in range(3)]
        for worker in writers:
            worker.wait_for("added")

        def tokens():
            return len({line.words[3] for line in of_event(scene.history(), "delivering")})

        scene.do_mischief(writers + relays, is_enough=lambda: (
            check_messages(scene.history(), is_over=False)[0] > ITEMS_MIN and tokens() > AGAIN_MIN))
        scene.finish(writers)
        scene.finish(relays)
        scene.add("drain-messages", "d0").wait(gets_on=True)
        count, refused = check_messages(scene.history())
        assert count > ITEMS_MIN and refused and tokens() > AGAIN_MIN, (
            f"{count} messages, {refused} again, {tokens()} relays")
        return f"{count} messages of {tokens()} relays, {refused} delivered again, {scene.note()}"


def alone_a_reaper_removes_no_directory_in_use(server):
    with Scene(server) as scene:
        users = [scene.add("use", f"u{i}") for i in range(3)]
        reapers = [scene.add("reap", f"r{i}") for i in range(2)]
        for worker in users:
            worker.wait_for("there")

        def counts():
            return (sum(map(int, words_of(scene.history(), "reaped"))), len(of_event(scene.history(), "there")))

        scene.do_mischief(users + reapers, is_enough=lambda: counts() > (REAPED_MIN, USED_MIN))
        scene.finish()
        vanished = of_event(scene.history(), "vanished")
        assert not vanished, f"removed while it was in use: {vanished[0]}"
        reaped, used = counts()
        assert reaped > REAPED_MIN and used > USED_MIN, f"{reaped} removed, {used} used"
        return f"{reaped} directories removed, {used} used, {scene.note()}"
