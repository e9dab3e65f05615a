# SPDX-License-Identifier: Apache-2.0
"""Tests that the checks of recipes (tests/native) accept good histories, and find a single mistake in them."""

import itertools
import tempfile

import recipes_data
import recipes_history
import recipes_locks

SECOND = 10**9


def _problem_of(check, *arguments):
    """Returns the problem that the check finds; "" if it finds none."""
    try:
        check(*arguments)
    except AssertionError as error:
        return str(error)
    return ""


def _lines(make, texts):
    """Makes lines by make(ns, process, event, arguments) from texts "SECOND PROCESS EVENT ARGUMENTS..."."""
    for text in texts:
        second, process, event, *arguments = text.split()
        yield make(int(float(second) * SECOND), int(process), event, arguments)


def lost_items_are_noticed_and_those_taken_out_of_order():
    """One lost item is allowed for a consumer (process 2) that is killed, if the item was in the queue when the consumer
    tried to take one."""
    class Worker:
        ended = {2: 100 * SECOND}

    def wrong_of(*lines):
        history = _lines(lambda ns, pid, event, words: recipes_data.Line(ns, pid, 1, event, words, Worker), lines)
        return _problem_of(recipes_data.check_items, sorted(history, key=lambda line: line.ns))

    def item(second, name, queue="/queue", rank=0):
        return (f"{second} 1 offering {name} {queue} {rank}", f"{second + 1} 1 offered {name} {queue} {rank}")

    def take(second, name, queue="/queue"):
        return f"{second} 3 taking {queue}", f"{second + 1} 3 took {name} {queue} 0"

    end = "99 2 taking /queue"
    good = [*item(1, "a"), *item(3, "b"), *take(10, "a"), *take(20, "b")]
    assert wrong_of(*good, end) == ""
    assert wrong_of(*good, *item(90, "c"), end) == ""
    for lines in (
            [*item(90, "c")],  # no consumer was taking an item when it was killed
            [*item(90, "c"), *item(92, "d"), end],  # one killed consumer for two lost items
            [*item(110, "c"), end],  # the item was offered long after the consumer was killed
            [*item(50, "c"), *item(60, "d"), *take(70, "d"), end],  # the item was gone before the consumer began
            [*item(90, "c"), "99 2 taking /priority-queue"]):
        assert "no consumer took it" in wrong_of(*good, *lines), lines
    assert "taken twice" in wrong_of(*good, *take(30, "a"))
    assert "b was taken before a" in wrong_of(*item(1, "a"), *item(3, "b"), *take(10, "b"), *take(20, "a"))
    late, urgent = item(1, "a", "/priority-queue", 1), item(3, "b", "/priority-queue", -1)
    order = [take(10, "b", "/priority-queue"), take(20, "a", "/priority-queue")]
    assert wrong_of(*late, *urgent, *order[0], *order[1]) == ""
    order = [take(10, "a", "/priority-queue"), take(20, "b", "/priority-queue")]
    assert "a was taken before b" in wrong_of(*late, *urgent, *order[0], *order[1])


def two_holders_of_a_mutex_are_noticed():
    """Processes 1 and 2 hold the mutex in turn, for one of every two seconds, and write in the middle of that second."""
    class Worker:
        def __init__(self, killed_ns=None):
            self.is_killed, self.killed_ns = killed_ns is not None, killed_ns

    def hold(number, process, token=None, seconds=1.0):
        begin, token = 2 * number, token or number
        return [f"{begin} {process} acquiring mutex", f"{begin + 0.2} {process} acquired mutex {token}",
                f"{begin + 0.5} {process} wrote {token} {number}",
                f"{begin + seconds} {process} release mutex {token}"]

    def ticks(process, until, stopped):
        return [f"{k * 0.4:.1f} {process} tick" for k in range(70)
                if k * 0.4 < until and not (stopped and stopped[0] < k * 0.4 < stopped[1])]

    def problem_of(holds, *more, stopped=None, killed=None, ticked=28):
        """`stopped`: when process 1 is stopped, as (from, to) in seconds. `killed`: when process 2 is killed. `ticked`:
        until when it ran."""
        texts = [*itertools.chain(*holds), *more, *ticks(1, 28, stopped), *ticks(2, ticked, None)]
        lines = sorted(_lines(lambda ns, pid, event, words: recipes_locks.Line(ns, pid, 1, event, words), texts),
                       key=lambda line: line.ns)
        return _problem_of(recipes_locks.check_mutex, [
            (worker, [line for line in lines if line.process == pid])
            for pid, worker in ((1, Worker()), (2, Worker(killed and int(killed * SECOND))))], "a note")

    good = [hold(i, 1 + i % 2) for i in range(1, 13)]
    assert problem_of(good) == "", problem_of(good)
    long = [*good[:5], hold(6, 1, seconds=2.5), *good[6:]]  # held until 14.5; process 2 holds it from 14.2 on
    assert "two processes hold it" in problem_of(long), problem_of(long)
    # A process that is stopped or dead does not use the mutex; what it held before that counts.
    assert problem_of(long, stopped=(12.5, 14.7)) == "", problem_of(long, stopped=(12.5, 14.7))
    assert "two processes hold it" in problem_of(long, stopped=(15.3, 16.5))
    dead = [*good[:10], hold(11, 2)[:3], hold(12, 1)]  # never released; process 1 holds it from 24.2 on
    assert "two processes hold it" in problem_of(dead)
    assert problem_of(dead, killed=23.7, ticked=23.7) == "", problem_of(dead, killed=23.7, ticked=23.7)
    assert "two processes hold it" in problem_of(dead, killed=24.5, ticked=24.5)
    assert problem_of(dead, killed=24.5, ticked=23.7) == "", "it was stopped before it was killed"
    # The older token is reported later: only a process that did not run in between may report it late.
    swapped = [*good[:4], hold(5, 2, token=6), hold(6, 1, token=5), *good[6:]]
    assert "token 5 at" in problem_of(swapped) and "comes after 6" in problem_of(swapped), problem_of(swapped)
    assert "comes after" not in problem_of(swapped, stopped=(11.7, 12.7))
    # The resource accepts a write of a contender that has lost the lock: a note, not a violation.
    assert problem_of(good, "12.1 2 wrote 5 99").startswith("a note: ["), problem_of(good, "12.1 2 wrote 5 99")
    # Histories without a violation.
    assert problem_of(good[:10]) == "a note: 10 acquired"
    assert problem_of([hold(i, 1 + i % 2)[:2] + hold(i, 1 + i % 2)[3:] for i in range(1, 13)]) == "a note: 12 acquired"


def transactions_that_are_not_decided_by_all_alike_are_noticed():
    """A coordinator (process 9) and three participants."""
    members = 3

    class Worker:
        def __init__(self, name):
            self.name = name

    workers = {pid: Worker(f"p{pid}") for pid in (1, 2, 3, 9)}

    def problem_of(*lines):
        history = _lines(lambda ns, pid, event, words: recipes_data.Line(ns, pid, 1, event, words, workers[pid]), lines)
        return _problem_of(recipes_data.check_transactions, sorted(history, key=lambda line: line.ns), members)

    def voting(name, votes="yes yes yes", begin=0):
        return [f"{begin + i / 10} {i} voting {name} {vote}" for i, vote in enumerate(votes.split(), 1)]

    def decided(name, decisions, begin=0):
        said = [f"{begin + 1 + i / 10} {i} decided {name} {what}" for i, what in enumerate(decisions.split(), 1)]
        return [f"{begin + 1} 9 coordinated {name} {decisions.split()[0]}", *said]

    committed = voting("a") + decided("a", "commit commit commit")
    aborted = voting("b", "yes no yes") + decided("b", "abort abort abort")
    assert problem_of(*committed, *aborted) == "", problem_of(*committed, *aborted)
    # A participant that is started again votes again.
    assert problem_of(*committed, *aborted, "0.9 2 voting a yes") == ""
    split = voting("c") + decided("c", "commit abort commit")
    assert problem_of(*committed, *aborted, *split).startswith("c: {"), problem_of(*committed, *aborted, *split)
    # Only the coordinator reports another decision.
    assert problem_of(*committed, *aborted, "5 9 coordinated a abort").startswith("a: {")
    against = voting("c", "yes no yes") + decided("c", "commit commit commit")
    assert problem_of(*committed, *aborted, *against) == "c was committed against a vote"
    few = voting("c", "yes yes") + decided("c", "commit commit")
    assert "c was committed with the votes of" in problem_of(*committed, *aborted, *few)
    late = voting("c", begin=1) + decided("c", "commit commit commit")  # the decision came before the last votes
    assert "c was committed with the votes of" in problem_of(*committed, *aborted, *late)
    # Histories without a violation.
    assert problem_of(*committed) == "1 commits, 0 aborts" and problem_of(*aborted) == "0 commits, 1 aborts"


def a_line_that_was_cut_is_none():
    """One process is killed in the middle of a line, and another process continues the file."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"1 20 1 taking /queue\n2 20 1 to")
        file.flush()
        first = (1, 20, 1, "taking", ["/queue"])
        assert recipes_history.lines(file.name) == [first]
        recipes_history.remove_cut_line(file.name)
        with open(file.name, "ab") as other:
            other.write(b"3 21 1 taking /queue\n")
        assert recipes_history.lines(file.name) == [first, (3, 21, 1, "taking", ["/queue"])]


TESTS = (lost_items_are_noticed_and_those_taken_out_of_order, two_holders_of_a_mutex_are_noticed,
         transactions_that_are_not_decided_by_all_alike_are_noticed, a_line_that_was_cut_is_none)
