// SPDX-License-Identifier: Apache-2.0

import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.api.CuratorEventType;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.framework.state.SessionConnectionStateErrorPolicy;
import org.apache.curator.retry.RetryForever;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher.Event.KeeperState;

/** A client with its own session, which repeats calls after a lost connection and counts these. */
final class Client implements AutoCloseable {
  /** A session must outlive the restart of any member. */
  private static final int SESSION_TIMEOUT_MS = 15_000;

  private static final int CONNECTION_TIMEOUT_MS = 5_000;
  private static final int RETRY_PAUSE_MS = 50;

  final CuratorFramework curator;
  private final AtomicInteger losses = new AtomicInteger();
  private final AtomicInteger sessionsLost = new AtomicInteger();

  Client(String hosts) throws InterruptedException {
    curator =
        CuratorFrameworkFactory.builder()
            .connectString(hosts)
            .sessionTimeoutMs(SESSION_TIMEOUT_MS)
            .connectionTimeoutMs(CONNECTION_TIMEOUT_MS)
            .retryPolicy(new RetryForever(RETRY_PAUSE_MS))
            // A lock or a leadership is held until the session ends, not until a connection does.
            .connectionStateErrorPolicy(new SessionConnectionStateErrorPolicy())
            .build();
    curator.getCuratorListenable().addListener((client, event) -> {
      if (event.getType() == CuratorEventType.WATCHED
          && event.getWatchedEvent().getState() == KeeperState.Disconnected) {
        losses.incrementAndGet();
      }
    });
    curator.getConnectionStateListenable().addListener((client, state) -> {
      if (state == ConnectionState.LOST) sessionsLost.incrementAndGet();
    });
    curator.start();
    Check.that(curator.blockUntilConnected(Work.PATIENCE_SECONDS, TimeUnit.SECONDS),
        "no connection to " + hosts);
  }

  /** Returns how often its connection was lost: each loss leaves at most one call unanswered. */
  int losses() {
    return losses.get();
  }

  byte[] get(String path) throws Exception {
    return curator.getData().forPath(path);
  }

  long getNumber(String path) throws Exception {
    return Long.parseLong(new String(get(path), StandardCharsets.UTF_8));
  }

  void setNumber(String path, long value) throws Exception {
    curator.setData().forPath(path, bytes(value));
  }

  /** Creates a node and its missing parents; does nothing if the node exists. */
  void ensure(String path, byte[] data) throws Exception {
    try {
      curator.create().creatingParentsIfNeeded().forPath(path, data);
    } catch (KeeperException.NodeExistsException thereAlready) {
      // The node exists, perhaps because of a create whose answer was lost.
    }
  }

  void removeTree(String path) throws Exception {
    while (curator.checkExists().forPath(path) != null) {
      try {
        curator.delete().deletingChildrenIfNeeded().forPath(path);
      } catch (KeeperException.NoNodeException gone) {
        // An earlier delete, whose answer was lost, was applied.
      }
    }
  }

  static byte[] bytes(long value) {
    return Long.toString(value).getBytes(StandardCharsets.UTF_8);
  }

  /** Ends the session. Fails if an earlier one was lost, because the test then proves nothing. */
  @Override
  public void close() {
    final int lost = sessionsLost.get();
    curator.close();
    Check.that(lost == 0, "the session was lost " + lost + " times");
  }
}
