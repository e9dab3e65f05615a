// SPDX-License-Identifier: Apache-2.0

import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooKeeper;

/**
 * Watches the tree at TREE with many clients, whose connections a test cuts meanwhile, until the
 * node TREE/end is there for each of them. Client N writes the events that it got to DIRECTORY/events-N, each as a
 * line with type and path; cache N writes the paths that it has at the end to DIRECTORY/cache-N.
 * Prints "ready" when all watches are set, and at the end how often clients connected.
 */
public final class Reconnects {
  private static final int SESSION_TIMEOUT_MS = 30_000;
  private static final int PATIENCE_SECONDS = 90;

  private Reconnects() {}

  /** A client with one recursive watch, which reads each node that has changed, as programs do. */
  private static final class Watching implements Watcher {
    private final String end;
    private final CountDownLatch ended;
    private final CountDownLatch connected = new CountDownLatch(1);
    private final AtomicInteger connects = new AtomicInteger();
    private final List<String> events = new ArrayList<>();
    private final ZooKeeper zookeeper;
    private boolean hasEnded = false;

    Watching(String hosts, String tree, CountDownLatch ended) throws Exception {
      this.end = tree + "/end";
      this.ended = ended;
      zookeeper = new ZooKeeper(hosts, SESSION_TIMEOUT_MS, this);
      Check.that(connected.await(PATIENCE_SECONDS, TimeUnit.SECONDS), "no connection");
      zookeeper.addWatch(tree, this, AddWatchMode.PERSISTENT_RECURSIVE);
    }

    @Override
    public synchronized void process(WatchedEvent event) {
      if (event.getType() == EventType.None) {
        if (event.getState() == KeeperState.SyncConnected) {
          connects.incrementAndGet();
          connected.countDown();
        }
        return;
      }
      if (event.getPath().equals(end)) {
        if (!hasEnded) ended.countDown();
        hasEnded = true;
        return;
      }
      events.add(event.getType() + " " + event.getPath());
      zookeeper.exists(event.getPath(), false, (code, path, context, stat) -> {}, null);
    }

    synchronized List<String> events() {
      return new ArrayList<>(events);
    }
  }

  private static void write(Path directory, String name, Iterable<String> lines)
      throws IOException {
    Files.write(directory.resolve(name), lines, StandardCharsets.UTF_8);
  }

  /** Usage: Reconnects HOSTS TREE CLIENTS CACHES DIRECTORY. */
  public static void main(String[] arguments) throws Exception {
    final PrintStream out = System.out;
    final String hosts = arguments[0];
    final String tree = arguments[1];
    final int clients = Integer.parseInt(arguments[2]);
    final int caches = Integer.parseInt(arguments[3]);
    final Path directory = Path.of(arguments[4]);
    final CountDownLatch ended = new CountDownLatch(clients);
    final List<Watching> all = new ArrayList<>();
    for (int i = 0; i < clients; ++i) all.add(new Watching(hosts, tree, ended));
    final List<CuratorCache> cached = new ArrayList<>();
    for (int i = 0; i < caches; ++i) {
      final CuratorCache cache = CuratorCache.build(new Client(hosts).curator, tree);
      cache.start();
      cached.add(cache);
    }
    out.println("ready");
    out.flush();
    Check.that(ended.await(PATIENCE_SECONDS, TimeUnit.SECONDS),
        ended.getCount() + " clients got no event of the end");
    final long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS);
    for (int i = 0; i < caches; ++i) {
      while (cached.get(i).get(tree + "/end").isEmpty() && System.nanoTime() < deadline) {
        Thread.sleep(20);
      }
      write(directory, "cache-" + i,
          cached.get(i).stream().map(data -> data.getPath()).collect(
              Collectors.toCollection(TreeSet::new)));
    }
    int connects = 0;
    for (int i = 0; i < clients; ++i) {
      write(directory, "events-" + i, all.get(i).events());
      connects += all.get(i).connects.get();
    }
    out.println(connects);
    System.exit(0);
  }
}
