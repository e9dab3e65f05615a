// SPDX-License-Identifier: Apache-2.0

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.data.Stat;

/** Tests nodes that represent a process while it lives. */
final class Nodes {
  private static final int MEMBERS = 4;

  private Nodes() {}

  /** Another client deletes a persistent node again and again; the recipe always recreates it. */
  static String persistentNode(Work work) throws Exception {
    final String path = work.root + "/node";
    final byte[] data = "still here".getBytes(StandardCharsets.UTF_8);
    final AtomicInteger removals = new AtomicInteger();
    final int losses = work.run(1, owner -> {
      final var node = new PersistentNode(owner.curator, CreateMode.EPHEMERAL, false, path, data);
      node.start();
      Check.that(
          node.waitForInitialCreate(Work.PATIENCE_SECONDS, TimeUnit.SECONDS), "never created");
      work.run(1, other -> {
        do {
          removeAndAwait(work, other, path, data, owner);
          removals.incrementAndGet();
        } while (work.goesOn());
      });
      node.close();
      Check.that(owner.curator.checkExists().forPath(path) == null, "left behind");
    });
    return removals + " removals, " + losses + " losses";
  }

  private static void removeAndAwait(
      Work work, Client client, String path, byte[] data, Client owner) throws Exception {
    client.curator.sync().forPath(path);
    final Stat before = client.curator.checkExists().forPath(path);
    if (before != null) {
      try {
        client.curator.delete().forPath(path);
      } catch (KeeperException.NoNodeException gone) {
        // An earlier delete, whose answer was lost, was applied.
      }
    }
    final long session = owner.curator.getZookeeperClient().getZooKeeper().getSessionId();
    work.until(() -> {
      final Stat stat = new Stat();
      try {
        final byte[] now = client.curator.getData().storingStatIn(stat).forPath(path);
        return Arrays.equals(now, data) && stat.getEphemeralOwner() == session
            && (before == null || stat.getCzxid() > before.getCzxid());
      } catch (KeeperException.NoNodeException notYet) {
        return false;
      }
    }, "the node never came back");
  }

  /** Each member of a group sees all members, and no member that has left. */
  static String groupMember(Work work) throws Exception {
    final String path = work.root + "/members";
    final AtomicInteger numbers = new AtomicInteger();
    final AtomicInteger rounds = new AtomicInteger();
    final CyclicBarrier meeting = new CyclicBarrier(MEMBERS);
    final boolean[] more = {true};
    final int losses = work.run(MEMBERS, client -> {
      final int number = numbers.getAndIncrement();
      while (true) {
        final var member = new GroupMember(client.curator, path, "member-" + number);
        member.start();
        work.until(() -> member.getCurrentMembers().size() == MEMBERS, "not all seen");
        if (meet(meeting) == 0) {
          rounds.incrementAndGet();
          more[0] = work.goesOn();
        }
        meet(meeting);
        if (number == rounds.get() % MEMBERS) {
          member.close();
        } else {
          work.until(() -> member.getCurrentMembers().size() == MEMBERS - 1, "a ghost was seen");
        }
        meet(meeting);
        if (number != rounds.get() % MEMBERS) member.close();
        if (!more[0]) break;
      }
    });
    return rounds + " rounds, " + losses + " losses";
  }

  private static int meet(CyclicBarrier meeting) throws Exception {
    return meeting.await(2 * Work.PATIENCE_SECONDS, TimeUnit.SECONDS);
  }
}
