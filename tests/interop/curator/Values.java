// SPDX-License-Identifier: Apache-2.0

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.VersionedValue;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.OpResult.ErrorResult;
import org.apache.zookeeper.data.Stat;

/** Tests values that several workers change at the same time, each based on its last read. */
final class Values {
  private static final int WORKERS = 3;
  private static final int ATTEMPTS = 500;
  private static final int ACCOUNTS = 4;
  private static final int FIRST_BALANCE = 100;

  private Values() {}

  /** The values that workers have set. Only one worker can have set each value. */
  private static final class Made {
    private final Set<Long> values = ConcurrentHashMap.newKeySet();

    void add(long value) {
      Check.that(values.add(value), "two workers made the value " + value);
    }

    /** Checks the last value. Each repeated change after a lost answer may raise it by one. */
    String check(long end, int losses) {
      Check.between("the last value", end, values.size(), values.size() + losses);
      return values.size() + " times, " + losses + " losses";
    }
  }

  static String sharedCount(Work work) throws Exception {
    final String path = work.root + "/count";
    final Made made = new Made();
    final AtomicInteger working = new AtomicInteger(WORKERS);
    final int losses = work.run(WORKERS, client -> {
      try (SharedCount count = new SharedCount(client.curator, path, 0)) {
        count.start();
        for (boolean any = false; work.goesOn() || !any;) {
          final VersionedValue<Integer> old = count.getVersionedValue();
          if (count.trySetCount(old, old.getValue() + 1)) {
            made.add(old.getValue() + 1);
            any = true;
          }
        }
        working.decrementAndGet();
        // All workers see the last change.
        work.until(()
                       -> working.get() == 0 && count.getCount() == lastCount(client, path),
            "the shared count stayed behind");
      }
    });
    try (Client client = new Client(work.hosts)) {
      client.curator.sync().forPath(path);
      return made.check(lastCount(client, path), losses);
    }
  }

  private static int lastCount(Client client, String path) throws Exception {
    return ByteBuffer.wrap(client.get(path)).getInt();
  }

  static String atomicLong(Work work) throws Exception {
    final String path = work.root + "/long";
    final Made made = new Made();
    final int losses = work.run(WORKERS, client -> {
      final var number =
          new DistributedAtomicLong(client.curator, path, new RetryNTimes(ATTEMPTS, 1));
      do {
        final AtomicValue<Long> value = number.increment();
        if (!value.succeeded()) continue;
        Check.equal("the value after", value.postValue(), value.preValue() + 1);
        made.add(value.postValue());
      } while (work.goesOn());
    });
    try (Client client = new Client(work.hosts)) {
      client.curator.sync().forPath(path);
      final var number = new DistributedAtomicLong(client.curator, path, new RetryNTimes(1, 1));
      return made.check(number.get().postValue(), losses);
    }
  }

  /**
   * Moves money between accounts; each transfer writes a line in the same transaction. At the end
   * the lines explain the balances exactly, and each account has one version for each line that
   * names it, however many answers were lost.
   */
  static String transactions(Work work) throws Exception {
    final AtomicInteger done = new AtomicInteger();
    final AtomicInteger refused = new AtomicInteger();
    try (Client client = new Client(work.hosts)) {
      client.ensure(work.root + "/lines", new byte[0]);
      for (int i = 0; i < ACCOUNTS; ++i) {
        client.ensure(account(work, i), Client.bytes(FIRST_BALANCE));
      }
    }
    final int losses = work.run(WORKERS, client -> {
      do {
        final int from = ThreadLocalRandom.current().nextInt(ACCOUNTS);
        final int to = (from + 1 + ThreadLocalRandom.current().nextInt(ACCOUNTS - 1)) % ACCOUNTS;
        if (move(work, client, from, to, ThreadLocalRandom.current().nextInt(1, 10))) {
          done.incrementAndGet();
        } else {
          refused.incrementAndGet();
        }
        refuseAll(work, client);
      } while (work.goesOn());
    });
    try (Client client = new Client(work.hosts)) {
      client.curator.sync().forPath(work.root);
      final int lines = checkBooks(work, client);
      Check.between("the number of lines", lines, done.get(), done.get() + losses);
    }
    return done + " done, " + refused + " refused, " + losses + " losses";
  }

  private static String account(Work work, int number) {
    return work.root + "/account-" + number;
  }

  private static boolean move(Work work, Client client, int from, int to, int amount)
      throws Exception {
    final CuratorFramework curator = client.curator;
    final Stat fromStat = new Stat();
    final Stat toStat = new Stat();
    final long fromBalance = balance(curator, account(work, from), fromStat);
    final long toBalance = balance(curator, account(work, to), toStat);
    final String line = from + " " + to + " " + amount;
    try {
      final var results = curator.transaction().forOperations(
          curator.transactionOp()
              .setData()
              .withVersion(fromStat.getVersion())
              .forPath(account(work, from), Client.bytes(fromBalance - amount)),
          curator.transactionOp()
              .setData()
              .withVersion(toStat.getVersion())
              .forPath(account(work, to), Client.bytes(toBalance + amount)),
          curator.transactionOp()
              .create()
              .withMode(CreateMode.PERSISTENT_SEQUENTIAL)
              .forPath(work.root + "/lines/line-", line.getBytes(StandardCharsets.UTF_8)));
      Check.equal("the number of results", results.size(), 3);
      Check.equal("the new version", results.get(0).getResultStat().getVersion(),
          fromStat.getVersion() + 1);
      return true;
    } catch (KeeperException.BadVersionException changedMeanwhile) {
      return false; // if the answer to a first attempt was lost, that attempt may have been applied
    }
  }

  private static long balance(CuratorFramework curator, String path, Stat stat) throws Exception {
    return Long.parseLong(
        new String(curator.getData().storingStatIn(stat).forPath(path), StandardCharsets.UTF_8));
  }

  /** Checks that a transaction whose last step fails applies none of its steps. */
  private static void refuseAll(Work work, Client client) throws Exception {
    final CuratorFramework curator = client.curator;
    final String path = work.root + "/never";
    try {
      curator.transaction().forOperations(curator.transactionOp().create().forPath(path),
          curator.transactionOp().setData().forPath(account(work, 0), new byte[0]),
          curator.transactionOp().check().withVersion(1).forPath(path));
      throw new AssertionError("a transaction with a wrong version was applied");
    } catch (KeeperException.BadVersionException wanted) {
      for (int i = 0; i < wanted.getResults().size(); ++i) {
        final int error = ((ErrorResult) wanted.getResults().get(i)).getErr();
        Check.equal("the result of step " + i, error,
            i == 2 ? KeeperException.Code.BADVERSION.intValue() : 0);
      }
    }
    Check.that(curator.checkExists().forPath(path) == null, path + " is there");
  }

  private static int checkBooks(Work work, Client client) throws Exception {
    final long[] balances = new long[ACCOUNTS];
    final int[] changes = new int[ACCOUNTS];
    Arrays.fill(balances, FIRST_BALANCE);
    final List<String> lines = client.curator.getChildren().forPath(work.root + "/lines");
    for (String name : lines) {
      final String[] words =
          new String(client.get(work.root + "/lines/" + name), StandardCharsets.UTF_8).split(" ");
      final int from = Integer.parseInt(words[0]);
      final int to = Integer.parseInt(words[1]);
      balances[from] -= Long.parseLong(words[2]);
      balances[to] += Long.parseLong(words[2]);
      ++changes[from];
      ++changes[to];
    }
    for (int i = 0; i < ACCOUNTS; ++i) {
      final Stat stat = new Stat();
      Check.equal("the balance of account " + i, balance(client.curator, account(work, i), stat),
          balances[i]);
      Check.equal("its version", stat.getVersion(), changes[i]);
    }
    return lines.size();
  }
}
