// SPDX-License-Identifier: Apache-2.0

import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;

/** Tests locks: a holder is alone, or one of few, and sees all writes of earlier holders. */
final class Locks {
  private static final int WORKERS = 4;
  private static final int LEASES = 2;
  private static final int TIMED_MS = 40;

  private Locks() {}

  /** A number in the tree that is right only if the lock excludes others and reads are fresh. */
  static final class Counter {
    private final String path;
    private final AtomicLong expected = new AtomicLong();

    Counter(Work work) throws Exception {
      path = work.root + "/work";
      try (Client client = new Client(work.hosts)) {
        client.ensure(path, Client.bytes(0));
      }
    }

    void read(Client client) throws Exception {
      Check.equal("what is written under the lock", client.getNumber(path), expected.get());
    }

    /** Increments the number. To set the same value again, after a lost answer, does no harm. */
    void increment(Client client) throws Exception {
      read(client);
      client.setNumber(path, expected.incrementAndGet());
    }
  }

  static String mutex(Work work) throws Exception {
    final String path = work.root + "/lock";
    final Counter counter = new Counter(work);
    final Room room = new Room(1);
    final AtomicInteger timedOut = new AtomicInteger();
    final int losses = work.run(WORKERS, client -> {
      final InterProcessMutex lock = new InterProcessMutex(client.curator, path);
      long ownEntries = 0;
      for (int turn = 0; work.goesOn() || ownEntries == 0; ++turn) {
        if (turn % 2 == 1 && !acquireInTime(lock)) {
          timedOut.incrementAndGet();
          continue;
        }
        if (turn % 2 == 0) lock.acquire();
        room.enter(1);
        lock.acquire();
        counter.increment(client);
        lock.release();
        Check.that(lock.isOwnedByCurrentThread(), "one of two releases released the lock");
        room.leave(1);
        lock.release();
        ++ownEntries;
      }
    });
    try (Client client = new Client(work.hosts)) {
      final int left = new InterProcessMutex(client.curator, path).getParticipantNodes().size();
      Check.equal("the number of nodes left at the lock", left, 0);
    }
    return room.entries() + " times (" + timedOut + " not in time), " + losses + " losses";
  }

  private static boolean acquireInTime(InterProcessLock lock) throws Exception {
    final long start = System.nanoTime();
    if (lock.acquire(TIMED_MS, TimeUnit.MILLISECONDS)) return true;
    final long waitedMs = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start);
    Check.that(waitedMs >= TIMED_MS - 1, "gave up after " + waitedMs + " ms already");
    return false;
  }

  static String readWrite(Work work) throws Exception {
    final Counter counter = new Counter(work);
    final Room room = new Room(WORKERS);
    final int losses = work.run(WORKERS, client -> {
      final InterProcessReadWriteLock lock =
          new InterProcessReadWriteLock(client.curator, work.root + "/lock");
      for (int turn = 0; work.goesOn() || turn < 3; ++turn) {
        final boolean writes = turn % 3 == 0;
        final InterProcessLock half = writes ? lock.writeLock() : lock.readLock();
        final int weight = writes ? WORKERS : 1;
        half.acquire();
        room.enter(weight);
        if (writes) counter.increment(client);
        counter.read(client);
        room.leave(weight);
        half.release();
      }
    });
    return room.entries() + " times, " + losses + " losses";
  }

  static String semaphore(Work work) throws Exception {
    final Room room = new Room(LEASES);
    final AtomicInteger timedOut = new AtomicInteger();
    final int losses = work.run(WORKERS, client -> {
      final InterProcessSemaphoreV2 semaphore =
          new InterProcessSemaphoreV2(client.curator, work.root + "/semaphore", LEASES);
      long ownEntries = 0;
      for (int turn = 0; work.goesOn() || ownEntries == 0; ++turn) {
        final boolean timed = turn % 2 == 1;
        final Lease lease =
            timed ? semaphore.acquire(TIMED_MS, TimeUnit.MILLISECONDS) : semaphore.acquire();
        if (lease == null) {
          Check.that(timed, "no lease from a call that waits forever");
          timedOut.incrementAndGet();
          continue;
        }
        room.enter(1);
        client.curator.sync().forPath(work.root);
        room.leave(1);
        semaphore.returnLease(lease);
        ++ownEntries;
      }
    });
    return room.entries() + " times (" + timedOut + " not in time), " + losses + " losses";
  }
}
