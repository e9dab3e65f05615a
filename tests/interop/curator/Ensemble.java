// SPDX-License-Identifier: Apache-2.0

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryForever;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.data.Stat;
import org.apache.zookeeper.server.quorum.flexible.QuorumVerifier;

/**
 * Changes the members by Curator's reconfig(), and follows them by its EnsembleTracker: a client that was started with
 * the addresses of HOSTS goes on after all of these are gone.
 */
public final class Ensemble {
  private static final int SESSION_TIMEOUT_MS = 20_000;
  private static final int CONNECTION_TIMEOUT_MS = 10_000;
  private static final int RETRY_PAUSE_MS = 50;
  private static final int PATIENCE_SECONDS = 60;
  private static final int WRITES = 20;

  private Ensemble() {}

  /** A client with the tracker, which is Curator's default. */
  private static final class Tracking implements AutoCloseable {
    final CuratorFramework curator;
    private final AtomicInteger sessionsLost = new AtomicInteger();

    Tracking(String hosts, String credentials) throws Exception {
      final CuratorFrameworkFactory.Builder builder =
          CuratorFrameworkFactory.builder()
              .connectString(hosts)
              .sessionTimeoutMs(SESSION_TIMEOUT_MS)
              .connectionTimeoutMs(CONNECTION_TIMEOUT_MS)
              .retryPolicy(new RetryForever(RETRY_PAUSE_MS));
      if (credentials != null) {
        builder.authorization("digest", credentials.getBytes(StandardCharsets.UTF_8));
      }
      curator = builder.build();
      curator.getConnectionStateListenable().addListener((client, state) -> {
        if (state == ConnectionState.LOST) sessionsLost.incrementAndGet();
      });
      curator.start();
      Check.that(curator.blockUntilConnected(PATIENCE_SECONDS, TimeUnit.SECONDS),
          "no connection to " + hosts);
    }

    private Set<String> servers() {
      return setOf(curator.getZookeeperClient().getCurrentConnectionString());
    }

    /** Waits until the tracker has the members of `version`, and the client connects to `hosts` alone. */
    void awaitMembers(long version, String hosts) throws InterruptedException {
      final long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS);
      while (true) {
        final QuorumVerifier config = curator.getCurrentConfig();
        final boolean isNew = config != null && config.getVersion() == version;
        if (isNew && servers().equals(setOf(hosts))) return;
        Check.that(System.nanoTime() < end,
            "a client has version " + (config == null ? "none" : Long.toHexString(config.getVersion()))
                + " and connects to " + servers() + ", not to " + hosts);
        Thread.sleep(RETRY_PAUSE_MS);
      }
    }

    long session() throws Exception {
      return curator.getZookeeperClient().getZooKeeper().getSessionId();
    }

    @Override
    public void close() {
      final int lost = sessionsLost.get();
      curator.close();
      Check.equal("the number of lost sessions", lost, 0);
    }
  }

  private static Set<String> setOf(String hosts) {
    return new TreeSet<>(Arrays.asList(hosts.split(",")));
  }

  /** Prints a line, and waits until the test has done its part and answers it with another one. */
  private static void hand(String line) throws Exception {
    System.out.println(line);
    System.out.flush();
    Check.that(System.in.read() == '\n', "the test does not go on");
  }

  /** Usage: Ensemble HOSTS GROWN_HOSTS LAST_HOSTS CREDENTIALS JOINING LEAVING. */
  public static void main(String[] arguments) throws Exception {
    final String grown = arguments[1];
    final String last = arguments[2];
    final List<String> joining = List.of(arguments[4].split(","));
    final List<String> leaving = List.of(arguments[5].split(","));
    try (Tracking changing = new Tracking(arguments[0], arguments[3]);
         Tracking following = new Tracking(arguments[0], null)) {
      final long session = following.session();
      following.curator.create().withMode(CreateMode.EPHEMERAL).forPath("/following");
      final Stat stat = new Stat();

      changing.curator.reconfig().joining(joining).storingStatIn(stat).forEnsemble();
      final long version = stat.getMzxid();
      for (Tracking client : List.of(changing, following)) client.awaitMembers(version, grown);

      changing.curator.reconfig().leaving(leaving).storingStatIn(stat).fromConfig(version).forEnsemble();
      for (Tracking client : List.of(changing, following)) client.awaitMembers(stat.getMzxid(), last);

      hand("shrunk");
      following.curator.create().forPath("/writes");
      for (int i = 0; i < WRITES; ++i) following.curator.create().forPath("/writes/" + i);
      Check.equal("the number of writes",
          changing.curator.getChildren().forPath("/writes").size(), WRITES);
      Check.equal("the session", following.session(), session);
      Check.equal("the owner of /following",
          changing.curator.checkExists().forPath("/following").getEphemeralOwner(), session);
    }
    System.out.println("members changed by Curator");
    System.exit(0);
  }
}
