// SPDX-License-Identifier: Apache-2.0

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.state.ConnectionState;

/**
 * Tests queues. Without faults each item is taken once. Curator repeats a call whose answer is
 * lost, which may add an item twice, or take an item and lose it: at most one item for each lost
 * connection may be wrong.
 */
final class Queues {
  private static final int PRODUCERS = 2;
  private static final int CONSUMERS = 2;
  private static final int POLL_MS = 20;
  /** How many items may wait: an old queue is slow, because each poll lists all of it. */
  private static final int MOST_WAITING = 40;

  private Queues() {}

  /** The items that were offered and those that were delivered. */
  private static final class Ledger {
    private final AtomicLong offered = new AtomicLong();
    private final Map<Long, Integer> taken = new HashMap<>();
    private long deliveries;

    long next() {
      return offered.incrementAndGet();
    }

    synchronized void take(long item) {
      Check.between("an item", item, 1, offered.get());
      taken.merge(item, 1, Integer::sum);
      ++deliveries;
      notifyAll();
    }

    synchronized void awaitRoom() throws InterruptedException {
      // The bound on the wait lets producers go on when items were lost.
      if (offered.get() - deliveries >= MOST_WAITING) wait(POLL_MS);
    }

    synchronized String check(int producerLosses, int consumerLosses, int lostForGood) {
      final long repeated = deliveries - taken.size();
      final long missing = offered.get() - taken.size();
      Check.between("the number of repeated items", repeated, 0, producerLosses + consumerLosses);
      Check.between("the number of missing items", missing, 0, lostForGood);
      return taken.size() + " items, " + (producerLosses + consumerLosses) + " losses";
    }
  }

  static String simple(Work work) throws Exception {
    final String path = work.root + "/queue";
    final Ledger ledger = new Ledger();
    final AtomicInteger producing = new AtomicInteger(PRODUCERS);
    final var producers = work.start(PRODUCERS, client -> {
      final var queue = new SimpleDistributedQueue(client.curator, path);
      do {
        ledger.awaitRoom();
        queue.offer(Client.bytes(ledger.next()));
      } while (work.goesOn());
      producing.decrementAndGet();
    });
    final var consumers = work.start(CONSUMERS, client -> {
      final var queue = new SimpleDistributedQueue(client.curator, path);
      while (true) {
        // The order matters: items that were added before the last producer ended are then seen.
        final boolean last = producing.get() == 0;
        if (last) client.curator.sync().forPath(path);
        final byte[] item = queue.poll(POLL_MS, TimeUnit.MILLISECONDS);
        if (item != null) ledger.take(number(item));
        if (item == null && last) break;
      }
    });
    final int producerLosses = work.await(producers);
    final int consumerLosses = work.await(consumers);
    return ledger.check(producerLosses, consumerLosses, consumerLosses);
  }

  private static long number(byte[] item) {
    return Long.parseLong(new String(item, StandardCharsets.UTF_8));
  }

  private static final QueueSerializer<Long> SERIALIZER = new QueueSerializer<>() {
    @Override
    public byte[] serialize(Long item) {
      return Client.bytes(item);
    }

    @Override
    public Long deserialize(byte[] bytes) {
      return number(bytes);
    }
  };

  private static DistributedQueue<Long> lockedQueue(Work work, Client client, Ledger ledger) {
    final QueueConsumer<Long> consumer = ledger == null ? null : new QueueConsumer<>() {
      @Override
      public void consumeMessage(Long item) {
        ledger.take(item);
      }

      @Override
      public void stateChanged(CuratorFramework curator, ConnectionState state) {}
    };
    return QueueBuilder.builder(client.curator, consumer, SERIALIZER, work.root + "/queue")
        .lockPath(work.root + "/locks")
        .buildQueue();
  }

  private static boolean isDrained(Work work, Client client) throws Exception {
    client.curator.sync().forPath(work.root + "/queue");
    return client.curator.checkExists().forPath(work.root + "/queue").getNumChildren() == 0;
  }

  /** Tests the queue whose consumers lock an item first: no item may be missing. */
  static String locked(Work work) throws Exception {
    final Ledger ledger = new Ledger();
    final AtomicInteger producing = new AtomicInteger(PRODUCERS);
    final var producers = work.start(PRODUCERS, client -> {
      try (DistributedQueue<Long> queue = lockedQueue(work, client, null)) {
        queue.start();
        do {
          ledger.awaitRoom();
          queue.put(ledger.next());
        } while (work.goesOn());
        Check.that(queue.flushPuts(Work.PATIENCE_SECONDS, TimeUnit.SECONDS), "puts never ended");
      }
      producing.decrementAndGet();
    });
    final var consumers = work.start(CONSUMERS, client -> {
      try (DistributedQueue<Long> queue = lockedQueue(work, client, ledger)) {
        queue.start();
        // A lock whose create was not answered blocks all consumers until its session ends.
        work.until(()
                       -> producing.get() == 0 && (isDrained(work, client) || client.losses() > 0),
            "the queue never became empty");
      }
    });
    final int producerLosses = work.await(producers);
    final int consumerLosses = work.await(consumers);
    // Takes the items left by consumers that did not wait for an empty queue.
    work.run(1, client -> {
      try (DistributedQueue<Long> queue = lockedQueue(work, client, ledger)) {
        queue.start();
        work.until(() -> isDrained(work, client), "the queue never became empty");
      }
    });
    // A consumer that does not wait for an empty queue may be stopped between taking an item and
    // deleting it.
    return ledger.check(producerLosses, consumerLosses == 0 ? 0 : consumerLosses + CONSUMERS, 0);
  }
}
