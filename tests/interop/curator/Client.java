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

/** A session of its own, which tries again whenever its connection is lost, and counts that. */
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

  /** How often its connection was lost: at most one call is of unknown outcome for each. */
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

  /** Creates a node and the parents that it lacks; does nothing if it is there. */
  void ensure(String path, byte[] data) throws Exception {
    try {
      curator.create().creatingParentsIfNeeded().forPath(path, data);
    } catch (KeeperException.NodeExistsException thereAlready) {
      // Also after a create whose answer was lost.
    }
  }

  void removeTree(String path) throws Exception {
    while (curator.checkExists().forPath(path) != null) {
      try {
        curator.delete().deletingChildrenIfNeeded().forPath(path);
      } catch (KeeperException.NoNodeException gone) {
        // A delete whose answer was lost.
      }
    }
  }

  static byte[] bytes(long value) {
    return Long.toString(value).getBytes(StandardCharsets.UTF_8);
  }

  /** Ends the session. Fails if an earlier one was lost, for then nothing here proves anything. */
  @Override
  public void close() {
    final int lost = sessionsLost.get();
    curator.close();
    Check.that(lost == 0, "the session was lost " + lost + " times");
  }
}
