// SPDX-License-Identifier: Apache-2.0

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.cache.TreeCache;
import org.apache.zookeeper.KeeperException;

/** Tests caches of a tree: they never go back to an older state, and are right at the end. */
final class Caches {
  private static final int WATCHERS = 3;
  private static final int NAMES = 4;

  private Caches() {}

  /** A cache of any kind. */
  interface Cache extends AutoCloseable {
    /** Returns its content: data by path. */
    Map<String, String> contents();

    @Override void close();
  }

  /** Opens a cache of `path`, which reports each state of a node that it sees. */
  interface Opener {
    Cache open(Client client, String path, Sightings sightings) throws Exception;
  }

  /** The states of each node that one cache has reported. None may be older than an earlier one. */
  static final class Sightings {
    private final Map<String, Long> newest = new ConcurrentHashMap<>();
    private final AtomicInteger count = new AtomicInteger();
    private final AtomicReference<String> wrong = new AtomicReference<>();

    void add(ChildData data) {
      count.incrementAndGet();
      newest.merge(data.getPath(), data.getStat().getMzxid(), (before, now) -> {
        if (now < before) wrong.set(data.getPath() + " went back to an older state");
        return now;
      });
    }
  }

  static String curatorCache(Work work) throws Exception {
    return run(work, (client, path, sightings) -> {
      final CuratorCache cache = CuratorCache.build(client.curator, path);
      cache.listenable().addListener(CuratorCacheListener.builder()
                                         .forCreates(sightings::add)
                                         .forChanges((before, now) -> sightings.add(now))
                                         .build());
      cache.start();
      return new Cache() {
        @Override
        public Map<String, String> contents() {
          final Map<String, String> contents = new TreeMap<>();
          cache.stream().forEach(data -> contents.put(data.getPath(), text(data.getData())));
          return contents;
        }

        @Override
        public void close() {
          cache.close();
        }
      };
    });
  }

  /** Tests the older kind of cache, which uses one-shot watches. */
  @SuppressWarnings("deprecation")
  static String treeCache(Work work) throws Exception {
    return run(work, (client, path, sightings) -> {
      final TreeCache cache = new TreeCache(client.curator, path);
      cache.getListenable().addListener((curator, event) -> {
        switch (event.getType()) {
          case NODE_ADDED:
          case NODE_UPDATED:
            sightings.add(event.getData());
            break;
          default:
            break;
        }
      });
      cache.start();
      return new Cache() {
        @Override
        public Map<String, String> contents() {
          final Map<String, String> contents = new TreeMap<>();
          copy(path, contents);
          return contents;
        }

        private void copy(String from, Map<String, String> contents) {
          final ChildData data = cache.getCurrentData(from);
          if (data != null) contents.put(from, text(data.getData()));
          final Map<String, ChildData> children = cache.getCurrentChildren(from);
          if (children == null) return;
          children.keySet().forEach(name -> copy(from + "/" + name, contents));
        }

        @Override
        public void close() {
          cache.close();
        }
      };
    });
  }

  private static String text(byte[] data) {
    return new String(data, StandardCharsets.UTF_8);
  }

  private static String run(Work work, Opener opener) throws Exception {
    final String path = work.root + "/tree";
    try (Client client = new Client(work.hosts)) {
      client.ensure(path, "top".getBytes(StandardCharsets.UTF_8));
    }
    final AtomicBoolean changing = new AtomicBoolean(true);
    final AtomicInteger seen = new AtomicInteger();
    final var watchers = work.start(WATCHERS, client -> {
      final Sightings sightings = new Sightings();
      try (Cache cache = opener.open(client, path, sightings)) {
        work.until(()
                       -> !changing.get() && cache.contents().equals(read(client, path)),
            "a cache never became right");
      }
      seen.addAndGet(sightings.count.get());
      Check.that(sightings.wrong.get() == null, sightings.wrong.get());
    });
    final AtomicInteger changes = new AtomicInteger();
    int losses = work.run(1, client -> {
      do {
        change(client, path, changes.incrementAndGet());
      } while (work.goesOn());
    });
    changing.set(false);
    losses += work.await(watchers);
    return changes + " changes, " + seen + " seen, " + losses + " losses";
  }

  /** Creates, changes or removes one of a few nodes on two levels. */
  private static void change(Client client, String top, int number) throws Exception {
    final ThreadLocalRandom random = ThreadLocalRandom.current();
    String path = top + "/" + random.nextInt(NAMES);
    if (random.nextBoolean()) path += "/" + random.nextInt(NAMES);
    final byte[] data = Client.bytes(number);
    try {
      switch (random.nextInt(3)) {
        case 0:
          client.curator.delete().forPath(path);
          break;
        case 1:
          client.curator.setData().forPath(path, data);
          break;
        default:
          client.curator.create().forPath(path, data);
          break;
      }
    } catch (KeeperException.NoNodeException | KeeperException.NodeExistsException
        | KeeperException.NotEmptyException noSuchChange) {
      // The next change is made instead.
    }
  }

  /** Reads the current tree, without watches. */
  private static Map<String, String> read(Client client, String path) throws Exception {
    client.curator.sync().forPath(path);
    final Map<String, String> contents = new HashMap<>();
    readInto(client, path, contents);
    return contents;
  }

  private static void readInto(Client client, String path, Map<String, String> contents)
      throws Exception {
    contents.put(path, text(client.get(path)));
    for (String name : client.curator.getChildren().forPath(path)) {
      readInto(client, path + "/" + name, contents);
    }
  }
}
