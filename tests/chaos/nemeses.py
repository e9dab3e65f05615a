# SPDX-License-Identifier: Apache-2.0
"""The nemeses: faults of members, of their network, disks and clocks, and of the workers.

A nemesis is a generator: it injects its fault, yields the number of seconds to wait, as often as
needed, and heals the fault in `finally`, so that it can be ended at any time. Its arguments are the scene
(runner.py) and its fault: `fault.chance` draws its random choices, `fault.seconds` is how long it lasts,
`fault.tell` writes to the log.
"""

import contextlib
import signal
import time

from members import SERVING

# Each lane has one fault at a time, because faults of the same lane would undo each other.
LANES = {
    "process": ("kill", "kill-leader", "kill-majority", "kill-all", "pause", "pause-leader", "rolling-restart",
                "transfer", "wipe"),
    "network": ("isolate-leader", "halves", "ring", "one-way", "delay", "loss", "duplicate", "reorder", "rate"),
    "disk": ("slow-disk", "stalled-disk", "full-disk"),
    "clock": ("clock",),
    "membership": ("replace-member", "new-number", "shrink", "demote"),
    "workers": ("worker-pause", "worker-kill"),
}
NAMES = tuple(name for names in LANES.values() for name in names)
LANE_OF = {name: lane for lane, names in LANES.items() for name in names}
# Nemeses that ZooKeeper does not survive, or that need the native front end.
ONLY_QUORATE = ("transfer", "wipe", "full-disk", *LANES["membership"])
# Faults of packets, which proxies cannot inject, and changes of members, after which all members connect to the
# addresses in the log and no longer to their own proxies.
ONLY_PACKETS = ("loss", "duplicate", "reorder", "rate", *LANES["membership"])
# Nemeses that begin only while every member has its data.
NEED_ALL_DATA = ("wipe", *LANES["membership"])
SERVE_SECONDS = 30
STOP_SECONDS = 15
MANY_SECONDS = 20  # the time in which wiped members catch up
FULL_LEAVES_BYTES = 256 << 10
FILL_TRIES = 10
# What has to be undone for a member in scene.to_admit: its removal, or only the loss of its vote. One that is replaced
# is lost for good, and the spare member takes its place.
REMOVED, DEMOTED, REPLACED = "removed", "demoted", "replaced"


def function_of(name):
    return globals()[name.replace("-", "_")]


# Processes


def _down(scene, fault, members):
    fault.tell(members, "killed")
    try:
        scene.cluster.kill(*members)
        yield fault.seconds
    finally:
        scene.launch(members)


def kill(scene, fault):
    yield from _down(scene, fault, scene.some(fault, 1))


def kill_leader(scene, fault):
    yield from _down(scene, fault, scene.leader_or_any(fault))


def kill_majority(scene, fault):
    yield from _down(scene, fault, scene.some(fault, scene.cluster.size // 2 + 1))


def kill_all(scene, fault):
    members = list(scene.cluster.numbers())
    fault.chance.shuffle(members)
    yield from _down(scene, fault, members)


def _paused(scene, fault, members):
    fault.tell(members, "stopped")
    try:
        for member in members:
            scene.cluster.signal(member, signal.SIGSTOP)
        yield fault.seconds
    finally:
        for member in members:
            scene.cluster.signal(member, signal.SIGCONT)


def pause(scene, fault):
    leader = scene.cluster.leader_now()
    followers = [i for i in scene.cluster.numbers() if i != leader]
    count = fault.chance.randint(1, max(1, (scene.cluster.size - 1) // 2))
    yield from _paused(scene, fault, fault.chance.sample(followers, count))


def pause_leader(scene, fault):
    yield from _paused(scene, fault, scene.leader_or_any(fault))


def rolling_restart(scene, fault):
    fault.tell(scene.cluster.numbers(), "restarted in turn")
    for member in fault.chance.sample(list(scene.cluster.numbers()), scene.cluster.size):
        try:
            scene.cluster.signal(member, signal.SIGTERM)
            deadline = time.monotonic() + STOP_SECONDS
            while scene.cluster.pid(member):
                if time.monotonic() > deadline:
                    raise AssertionError(f"member {member} does not end {STOP_SECONDS} s after SIGTERM")
                yield 0.05
        finally:
            scene.cluster.kill(member)
            scene.launch([member])
        deadline = time.monotonic() + SERVE_SECONDS
        # If there are other faults at the same time, the member may serve only after their end.
        while scene.cluster.states().get(member, SERVING)[0] not in SERVING and time.monotonic() < deadline:
            yield 0.1


def transfer(scene, fault):
    leader = scene.leader_or_any(fault)[0]
    target = fault.chance.choice([i for i in scene.cluster.numbers() if i != leader])
    fault.tell([leader], f"leadership to member {target}")
    scene.transfer(leader, target)
    yield 0.2


def wipe(scene, fault):
    # One member at a time, and only while all others have their data: otherwise acknowledged writes could be
    # lost without a mistake of the servers.
    (member,) = scene.some(fault, 1)
    fault.tell([member], "data removed")
    scene.wiped[member] = len(scene.cluster.log(member))
    try:
        scene.cluster.remove_data(member)
        yield min(fault.seconds, 2)
    finally:
        scene.launch([member])
    deadline = time.monotonic() + MANY_SECONDS
    while scene.cluster.states()[member][0] not in SERVING and time.monotonic() < deadline:
        yield 0.1


# The network


@contextlib.contextmanager
def _network(scene):
    try:
        yield scene.network
    finally:
        scene.network.heal()


def _with_workers(scene, fault, side_of_members):
    """Returns the nodes of the members, and in half of all cases those of some workers with them."""
    nodes = [scene.network.members[i - 1] for i in side_of_members]
    if fault.chance.random() < 0.5:
        nodes += [worker for worker in scene.network.workers if fault.chance.random() < 0.5]
    return nodes


def _split(scene, fault, members):
    side = _with_workers(scene, fault, members)
    other = [scene.network.members[i - 1] for i in scene.cluster.numbers() if i not in members]
    if fault.chance.random() < 0.5:  # these workers see all members
        other += [worker for worker in scene.network.workers if worker not in side]
    with _network(scene) as network:
        network.cut(side, other)
        fault.tell(members, f"{' '.join(side)} | {' '.join(other)}")
        yield fault.seconds


def isolate_leader(scene, fault):
    yield from _split(scene, fault, scene.leader_or_any(fault))


def halves(scene, fault):
    yield from _split(scene, fault, scene.some(fault, scene.cluster.size // 2))


def ring(scene, fault):
    nodes = [scene.network.members[i - 1] for i in scene.cluster.numbers()]
    order = fault.chance.sample(nodes, len(nodes))
    fault.tell(scene.cluster.numbers(), " ".join(order))
    with _network(scene) as network:
        for i, one in enumerate(order):
            for j, other in enumerate(order):
                if (i - j) % len(order) not in (0, 1, len(order) - 1):
                    network.set([one], [other], "drop")
        yield fault.seconds


def one_way(scene, fault):
    member = (scene.leader_or_any(fault) if fault.chance.random() < 0.5 else scene.some(fault, 1))[0]
    node = [scene.network.members[member - 1]]
    others = [other for other in scene.network.members if other not in node]
    if fault.chance.random() < 0.5:
        others += scene.network.workers
    hears = fault.chance.random() < 0.5
    fault.tell([member], "receives packets and sends none" if hears else "sends packets and receives none")
    with _network(scene) as network:
        if hears:
            network.set(node, others, "drop")
        else:
            network.set(others, node, "drop")
        yield fault.seconds


def _everywhere_or_at_one(scene, fault, rule):
    everywhere = fault.chance.random() < 0.5
    members = list(scene.cluster.numbers()) if everywhere else scene.some(fault, 1)
    nodes = [scene.network.members[i - 1] for i in members]
    others = scene.network.members + scene.network.workers
    fault.tell(members, rule)
    with _network(scene) as network:
        network.set(nodes, others, rule)
        network.set(others, nodes, rule)
        yield fault.seconds


def delay(scene, fault):
    rule = f"delay={fault.chance.choice((10, 50, 120, 250))} jitter={fault.chance.choice((0, 20, 80))}"
    yield from _everywhere_or_at_one(scene, fault, rule)


def loss(scene, fault):
    yield from _everywhere_or_at_one(scene, fault, f"loss={fault.chance.choice((0.02, 0.1, 0.25))}")


def duplicate(scene, fault):
    yield from _everywhere_or_at_one(scene, fault, f"duplicate={fault.chance.choice((0.1, 0.5))}")


def reorder(scene, fault):
    yield from _everywhere_or_at_one(scene, fault, f"reorder={fault.chance.choice((0.05, 0.3))}")


def rate(scene, fault):
    # In units of 1000 bytes a second between two nodes, one way: from a slow long-distance line to a bad local network.
    yield from _everywhere_or_at_one(scene, fault, f"rate={fault.chance.choice((500, 2_000, 12_000))}")


# Disks


def _on_disks(scene, fault, members, text, **control):
    fault.tell(members, text)
    try:
        for member in members:
            scene.cluster.controls[member].set(**control)
        yield fault.seconds
    finally:
        for member in members:
            scene.cluster.controls[member].set()


def _some_or_leader(scene, fault):
    draw = fault.chance.random()
    if draw < 0.4:
        return scene.leader_or_any(fault)
    return scene.some(fault, 1 if draw < 0.8 else scene.cluster.size // 2 + 1)


def slow_disk(scene, fault):
    sync_ms = fault.chance.choice((20, 100, 400))
    yield from _on_disks(scene, fault, _some_or_leader(scene, fault), f"a sync takes up to {sync_ms} ms",
                         sync_ms=sync_ms, write_ms=sync_ms // 10)


def stalled_disk(scene, fault):
    yield from _on_disks(scene, fault, _some_or_leader(scene, fault), "nothing is answered", stalled=True)


def _fill(disk, leave):
    for _ in range(FILL_TRIES):
        with contextlib.suppress(OSError):  # the server has taken some of the free space meanwhile
            disk.fill(leave)
            return


def full_disk(scene, fault):
    members = _some_or_leader(scene, fault)
    leave = fault.chance.choice((FULL_LEAVES_BYTES, 4 << 20))
    fault.tell(members, f"{leave >> 10} KiB left")
    try:
        for member in members:
            _fill(scene.cluster.disks[member], leave)
        yield fault.seconds
    finally:
        for member in members:
            scene.cluster.disks[member].free_space()


# Clocks


def clock(scene, fault):
    members = list(scene.cluster.numbers())
    if fault.chance.random() < 0.6:
        members = scene.some(fault, 1)
    jump = fault.chance.choice((-1, 1)) * fault.chance.choice((0.2, 5, 60, 3600, 86400 * 30))
    fault.tell(members, f"{jump:+g} s")
    try:
        for member in members:
            scene.cluster.set_clock(member, jump)
        yield fault.seconds
    finally:
        for member in members:
            scene.cluster.set_clock(member, 0)


# Membership. A change that another fault keeps from its end stays in scene.to_admit: the next change, or the end of the
# run, gives it again. Commands do nothing if their change is in force already.


def _command(scene, *arguments):
    """Runs `quorate member`. Returns whether it succeeded."""
    process = scene.cluster.member_command(*arguments)
    try:
        while process.poll() is None:
            yield 0.1
        return process.returncode == 0
    finally:
        process.kill()
        process.wait()


def _admit(scene, member):
    """Takes a member into the cluster again, with a vote, or another one in its place."""
    if scene.to_admit[member] == REPLACED:
        if (yield from _command(scene, *scene.cluster.replacement_of(member))):
            scene.replaced(member)
        return
    if scene.to_admit[member] == REMOVED:
        # Its removal may not have been seen to succeed. Only a member that counts no more may lose its data.
        if not (yield from _command(scene, "remove", member)):
            return
        scene.empty(member)
    if (yield from _command(scene, "add", member, scene.cluster.server_line(member))):
        scene.admitted(member)


def _admit_all(scene):
    for member in list(scene.to_admit):
        yield from _admit(scene, member)


def _change(scene, fault, members, verb, text):
    yield from _admit_all(scene)
    if scene.to_admit:
        return
    members = [member for member in members if member in scene.cluster.numbers()]  # one may have been replaced
    fault.tell(members, text)
    for member in members:
        scene.to_admit[member] = REMOVED if verb == "remove" else DEMOTED
        if not (yield from _command(scene, verb, member)):
            break
    yield fault.seconds
    yield from _admit_all(scene)


def replace_member(scene, fault):
    fault.seconds = min(fault.seconds, 0.2)
    yield from _change(scene, fault, scene.some(fault, 1), "remove", "removed, and admitted with an empty disk")


def new_number(scene, fault):
    yield from _admit_all(scene)
    if scene.to_admit or not scene.cluster.spare:
        return
    (member,) = scene.some(fault, 1)
    fault.tell([member], f"lost for good, and replaced by member {scene.cluster.spare}")
    scene.lose(member)
    yield from _admit_all(scene)


def shrink(scene, fault):
    count = max(1, (scene.cluster.size - 1) // 2)
    yield from _change(scene, fault, scene.some(fault, count), "remove", "removed one by one, and admitted later")


def demote(scene, fault):
    yield from _change(scene, fault, scene.some(fault, 1), "demote", "an observer for a while")


# Workers


def worker_pause(scene, fault):
    worker = scene.a_worker(fault)
    fault.tell([], f"{worker.label} stopped")
    worker.signal(signal.SIGSTOP)
    try:
        yield fault.seconds
    finally:
        worker.signal(signal.SIGCONT)


def worker_kill(scene, fault):
    worker = scene.a_worker(fault)
    fault.tell([], f"{worker.label} killed")
    worker.kill()
    try:
        yield min(fault.seconds, 2)
    finally:
        scene.replace_worker(worker)
