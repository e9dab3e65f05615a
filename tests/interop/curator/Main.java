// SPDX-License-Identifier: Apache-2.0

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/**
 * Runs a group of Curator's recipes at the same time against HOSTS for SECONDS. Exits with status 0
 * if every invariant held, also while members were killed and restarted.
 */
public final class Main {
  /** One recipe: runs as long as `work` goes on, checks its invariants, and returns a note. */
  interface Recipe {
    String run(Work work) throws Exception;
  }

  private static final Map<String, Map<String, Recipe>> GROUPS = Map.of("locks",
      Map.of("mutex", Locks::mutex, "read-write", Locks::readWrite, "semaphore", Locks::semaphore),
      "leaders", Map.of("latch", Leaders::latch, "selector", Leaders::selector), "queues",
      Map.of("simple", Queues::simple, "locked", Queues::locked, "barrier", Barriers::single),
      "double-barrier", Map.of("double barrier", Barriers::both), "values",
      Map.of("shared count", Values::sharedCount, "atomic long", Values::atomicLong, "transactions",
          Values::transactions),
      "caches",
      Map.of("cache", Caches::curatorCache, "tree cache", Caches::treeCache, "persistent node",
          Nodes::persistentNode, "group", Nodes::groupMember));

  private Main() {}

  public static void main(String[] arguments) throws Exception {
    if (arguments.length != 3 || !GROUPS.containsKey(arguments[0])) {
      System.err.println("usage: Main " + String.join("|", GROUPS.keySet()) + " HOSTS SECONDS");
      System.exit(2);
    }
    final String hosts = arguments[1];
    final String root = "/curator-" + arguments[0];
    try (Client client = new Client(hosts)) {
      client.removeTree(root);
    }
    final Map<String, Future<String>> running = new LinkedHashMap<>();
    final ExecutorService threads = Executors.newCachedThreadPool();
    GROUPS.get(arguments[0]).forEach((name, recipe) -> {
      final String place = root + "/" + name.replace(' ', '-');
      final Work work = new Work(hosts, place, Double.parseDouble(arguments[2]));
      running.put(name, threads.submit(() -> recipe.run(work)));
    });
    final List<String> facts = new ArrayList<>();
    for (Map.Entry<String, Future<String>> entry : running.entrySet()) {
      try {
        facts.add(entry.getKey() + " " + entry.getValue().get());
      } catch (ExecutionException error) {
        error.getCause().printStackTrace();
        System.err.println("FAILED: " + entry.getKey() + ": " + error.getCause());
        System.exit(1);
      }
    }
    System.out.println(String.join("; ", facts));
    System.exit(0);
  }
}
