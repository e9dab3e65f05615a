// SPDX-License-Identifier: Apache-2.0

import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;

/** Tests barriers: no member passes early, and all members pass. */
final class Barriers {
  private static final int MEMBERS = 4;
  private static final int PASS_SECONDS = 15;

  private Barriers() {}

  static String single(Work work) throws Exception {
    final String path = work.root + "/barrier";
    final AtomicBoolean open = new AtomicBoolean();
    final AtomicBoolean more = new AtomicBoolean(true);
    final AtomicInteger rounds = new AtomicInteger();
    // All workers and the thread that removes the barrier meet before and after each round.
    final CyclicBarrier meeting = new CyclicBarrier(MEMBERS + 1);
    final var waiting = work.start(MEMBERS, client -> {
      final var barrier = new DistributedBarrier(client.curator, path);
      while (true) {
        meet(meeting);
        if (!more.get()) break;
        // This client's server may not have applied the creation of the barrier yet.
        client.curator.sync().forPath(path);
        Check.that(barrier.waitOnBarrier(PASS_SECONDS, TimeUnit.SECONDS), "never opened");
        Check.that(open.get(), "passed a closed barrier");
        meet(meeting);
      }
    });
    final int losses = work.run(1, client -> {
      final var barrier = new DistributedBarrier(client.curator, path);
      do {
        barrier.setBarrier();
        open.set(false);
        meet(meeting);
        client.curator.sync().forPath(path);
        open.set(true);
        barrier.removeBarrier();
        meet(meeting);
        rounds.incrementAndGet();
      } while (work.goesOn());
      more.set(false);
      meet(meeting);
    });
    return rounds + " rounds, " + (losses + work.await(waiting)) + " losses";
  }

  /**
   * Runs only without faults: when a connection is lost or made, Curator's double barrier lets its
   * members pass or wait forever, whatever the server does.
   */
  static String both(Work work) throws Exception {
    final AtomicInteger entering = new AtomicInteger();
    final AtomicInteger leaving = new AtomicInteger();
    final AtomicInteger rounds = new AtomicInteger();
    final AtomicBoolean more = new AtomicBoolean(true);
    // A member in enter() that learns that the barrier is ready before it counts the members, and
    // finds that some have left, waits without limit. So no member leaves before all have returned.
    final CyclicBarrier inside = new CyclicBarrier(MEMBERS);
    final CyclicBarrier meeting = new CyclicBarrier(MEMBERS, () -> {
      entering.set(0);
      leaving.set(0);
      more.set(work.goesOn() || rounds.get() == 0);
      rounds.incrementAndGet();
    });
    final int losses = work.run(MEMBERS, client -> {
      client.ensure(work.root, new byte[0]);
      for (meet(meeting); more.get(); meet(meeting)) {
        final var barrier =
            new DistributedDoubleBarrier(client.curator, work.root + "/round-" + rounds, MEMBERS);
        entering.incrementAndGet();
        Check.that(barrier.enter(PASS_SECONDS, TimeUnit.SECONDS), "could not enter in time");
        Check.equal("the number of members that entered", entering.get(), MEMBERS);
        meet(inside);
        leaving.incrementAndGet();
        Check.that(barrier.leave(PASS_SECONDS, TimeUnit.SECONDS), "could not leave in time");
        Check.equal("the number of members that left", leaving.get(), MEMBERS);
      }
    });
    return (rounds.get() - 1) + " rounds, " + losses + " losses";
  }

  private static void meet(CyclicBarrier meeting) throws Exception {
    meeting.await(2 * Work.PATIENCE_SECONDS, TimeUnit.SECONDS);
  }
}
