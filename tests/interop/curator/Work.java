// SPDX-License-Identifier: Apache-2.0

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BrokenBarrierException;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/** The environment of a recipe: servers, an end time, a root in the tree, and threads. */
final class Work {
  /** The longest time of anything after the end of the work. */
  static final int PATIENCE_SECONDS = 40;

  final String hosts;
  final String root;
  private final long endNanos;
  private final ExecutorService threads = Executors.newCachedThreadPool(task -> {
    final Thread thread = new Thread(task);
    thread.setDaemon(true);
    return thread;
  });

  Work(String hosts, String root, double seconds) {
    this.hosts = hosts;
    this.root = root;
    endNanos = System.nanoTime() + (long) (seconds * 1e9);
  }

  boolean goesOn() {
    return System.nanoTime() < endNanos;
  }

  /** A worker with a session of its own. */
  interface Worker {
    void run(Client client) throws Exception;
  }

  /** Starts `count` workers; each returns how often it lost its connection. */
  List<Future<Integer>> start(int count, Worker worker) {
    final List<Future<Integer>> futures = new ArrayList<>();
    for (int i = 0; i < count; ++i) {
      futures.add(start(() -> {
        try (Client client = new Client(hosts)) {
          worker.run(client);
          return client.losses();
        }
      }));
    }
    return futures;
  }

  private <T> Future<T> start(Callable<T> task) {
    return threads.submit(task);
  }

  /** Waits for workers. Returns the sum of their results; throws the error of the first failure. */
  int await(List<Future<Integer>> futures) throws Exception {
    int sum = 0;
    BrokenBarrierException broken = null;
    for (Future<Integer> future : futures) {
      try {
        sum += await(future);
      } catch (BrokenBarrierException error) {
        broken = error; // another worker failed first
      }
    }
    if (broken != null) throw broken;
    return sum;
  }

  private <T> T await(Future<T> future) throws Exception {
    final long leftNanos =
        endNanos - System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS);
    try {
      return future.get(Math.max(leftNanos, 0), TimeUnit.NANOSECONDS);
    } catch (ExecutionException error) {
      if (error.getCause() instanceof Exception) throw(Exception) error.getCause();
      throw(Error) error.getCause();
    }
  }

  /** Starts workers and waits for them. Returns how often they lost their connections. */
  int run(int count, Worker worker) throws Exception {
    return await(start(count, worker));
  }

  /** A condition on the servers' state. */
  interface Condition {
    boolean holds() throws Exception;
  }

  /** Waits until a condition holds; fails with `message` after a timeout. */
  void until(Condition condition, String message) throws Exception {
    final long deadline =
        Math.max(System.nanoTime(), endNanos) + TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS) / 2;
    while (!condition.holds()) {
      Check.that(System.nanoTime() < deadline, message);
      Thread.sleep(5);
    }
  }
}
