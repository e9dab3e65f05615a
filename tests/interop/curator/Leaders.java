// SPDX-License-Identifier: Apache-2.0

import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListener;
import org.apache.curator.framework.state.ConnectionState;

/** Tests elections: there is one leader at a time, and every candidate leads at some time. */
final class Leaders {
  private static final int WORKERS = 4;

  private Leaders() {}

  static String latch(Work work) throws Exception {
    final Locks.Counter counter = new Locks.Counter(work);
    final Room room = new Room(1);
    final int losses = work.run(WORKERS, client -> {
      for (long reigns = 0; work.goesOn() || reigns == 0; ++reigns) {
        try (LeaderLatch latch = new LeaderLatch(client.curator, work.root + "/latch")) {
          latch.start();
          Check.that(latch.await(Work.PATIENCE_SECONDS, TimeUnit.SECONDS), "never elected");
          room.enter(1);
          counter.increment(client);
          Check.that(latch.hasLeadership(), "leadership ended while the session lives");
          // Left before the latch is closed, because others may lead before close() returns.
          room.leave(1);
        }
      }
    });
    return room.entries() + " reigns, " + losses + " losses";
  }

  /** A candidate that leads repeatedly, for a short time. */
  private static final class Candidate implements LeaderSelectorListener {
    private final Client client;
    private final Locks.Counter counter;
    private final Room room;
    private final AtomicLong reigns = new AtomicLong();
    private boolean closed;
    private volatile Throwable error;

    Candidate(Client client, Locks.Counter counter, Room room) {
      this.client = client;
      this.counter = counter;
      this.room = room;
    }

    /** Synchronized, so that the interrupt by LeaderSelector.close() never hits the work. */
    @Override
    public synchronized void takeLeadership(CuratorFramework curator) {
      if (closed || error != null) return;
      try {
        room.enter(1);
        counter.increment(client);
        room.leave(1);
        reigns.incrementAndGet();
      } catch (Throwable thrown) {
        error = thrown;
      }
    }

    @Override
    public void stateChanged(CuratorFramework curator, ConnectionState state) {
      // The session goes on when a connection is lost; Client notices if it does not.
    }

    synchronized void close(LeaderSelector selector) {
      closed = true;
      selector.close();
    }
  }

  static String selector(Work work) throws Exception {
    final Locks.Counter counter = new Locks.Counter(work);
    final Room room = new Room(1);
    final AtomicInteger done = new AtomicInteger();
    final int losses = work.run(WORKERS, client -> {
      final Candidate candidate = new Candidate(client, counter, room);
      final LeaderSelector selector =
          new LeaderSelector(client.curator, work.root + "/selector", candidate);
      selector.autoRequeue();
      selector.start();
      work.until(()
                     -> (!work.goesOn() && candidate.reigns.get() > 0) || candidate.error != null,
          "never elected");
      candidate.close(selector);
      if (candidate.error != null) throw new AssertionError(candidate.error);
      done.incrementAndGet();
    });
    Check.equal("the number of candidates that led", done.get(), WORKERS);
    return room.entries() + " reigns, " + losses + " losses";
  }
}
