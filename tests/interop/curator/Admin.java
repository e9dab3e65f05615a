// SPDX-License-Identifier: Apache-2.0

import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.admin.ZooKeeperAdmin;
import org.apache.zookeeper.data.Stat;
import org.apache.zookeeper.server.quorum.flexible.QuorumMaj;
import org.apache.zookeeper.server.util.ConfigUtils;

/**
 * Changes the members by ZooKeeper's own ZooKeeperAdmin: takes in those of JOINING, moves its session to
 * them, and takes out those of LEAVING. Checks the errors, the watch of the configuration, and that the session
 * survives.
 */
public final class Admin {
  private static final int SESSION_TIMEOUT_MS = 20_000;
  private static final int TRIES = 20;
  private static final int PATIENCE_SECONDS = 60;
  private static final String CONFIG = "/zookeeper/config";

  /** The events of a client, its connections and its watches apart. */
  private static final class Events implements Watcher {
    final BlockingQueue<KeeperState> states = new LinkedBlockingQueue<>();
    final BlockingQueue<WatchedEvent> changes = new LinkedBlockingQueue<>();

    @Override
    public void process(WatchedEvent event) {
      if (event.getType() == EventType.None) {
        states.add(event.getState());
      } else {
        changes.add(event);
      }
    }

    void awaitConnection() throws InterruptedException {
      KeeperState state;
      do {
        state = states.poll(PATIENCE_SECONDS, TimeUnit.SECONDS);
        Check.that(state != null, "no connection");
        Check.that(state != KeeperState.Expired, "the session has expired");
      } while (state != KeeperState.SyncConnected);
    }
  }

  private Admin() {}

  /**
   * Returns the error of a request that is to be refused. It is sent again if the connection breaks, or
   * if its answer is not known because the leader changes: a removed leader hands over just then.
   */
  private static KeeperException.Code errorOf(
      ZooKeeperAdmin admin, String joining, String leaving, long version) throws Exception {
    KeeperException.Code code = KeeperException.Code.CONNECTIONLOSS;
    for (int i = 0; i < TRIES && code == KeeperException.Code.CONNECTIONLOSS; ++i) {
      try {
        admin.reconfigure(joining, leaving, null, version, new Stat());
        code = KeeperException.Code.OK;
      } catch (KeeperException error) {
        code = error.code();
      }
    }
    return code;
  }

  private static void expectError(KeeperException.Code error, KeeperException.Code wanted) {
    Check.that(error == wanted, "a reconfigure gives " + error + ", not " + wanted);
  }

  /** Returns the configuration as ZooKeeper's own servers and clients read it. */
  private static QuorumMaj parse(byte[] config) throws Exception {
    final Properties lines = new Properties();
    lines.load(new StringReader(new String(config, StandardCharsets.UTF_8)));
    return new QuorumMaj(lines);
  }

  @SuppressWarnings("try") // close() may be interrupted: that ends the program with an error
  private static void checkRefusals(String hosts, ZooKeeperAdmin admin, String joining)
      throws Exception {
    final Events events = new Events();
    try (ZooKeeperAdmin stranger = new ZooKeeperAdmin(hosts, SESSION_TIMEOUT_MS, events)) {
      events.awaitConnection();
      expectError(errorOf(stranger, joining, null, -1), KeeperException.Code.NOAUTH);
    }
    expectError(errorOf(admin, joining, null, 12345), KeeperException.Code.BADVERSION);
    expectError(errorOf(admin, "server.4=nonsense", null, -1), KeeperException.Code.BADARGUMENTS);
  }

  private static boolean isConnectedToOneOf(ZooKeeperAdmin admin, String hosts) {
    for (String host : hosts.split(",")) {
      // Of the client's text "... remoteserver:HOST/ADDRESS:PORT lastZxid:...".
      if (admin.toString().contains(host.substring(host.lastIndexOf(':')) + " lastZxid")) return true;
    }
    return false;
  }

  /** Moves the session to the servers of `hosts`, to which it was not connected. */
  private static void moveTo(ZooKeeperAdmin admin, Events events, String hosts) throws Exception {
    Check.that(!isConnectedToOneOf(admin, hosts), "it is at a new server already: " + admin);
    events.states.clear();
    admin.updateServerList(hosts);
    events.awaitConnection();
    Check.that(isConnectedToOneOf(admin, hosts), "it did not move to " + hosts + ": " + admin);
  }

  /** Usage: Admin HOSTS NEW_HOSTS CREDENTIALS JOINING LEAVING. */
  @SuppressWarnings("try")
  public static void main(String[] arguments) throws Exception {
    final String hosts = arguments[0];
    final String newHosts = arguments[1];
    final String joining = arguments[3];
    final String leaving = arguments[4];
    final int joiningCount = joining.split(",").length;
    final Events events = new Events();
    try (ZooKeeperAdmin admin = new ZooKeeperAdmin(hosts, SESSION_TIMEOUT_MS, events)) {
      events.awaitConnection();
      admin.addAuthInfo("digest", arguments[2].getBytes(StandardCharsets.UTF_8));
      final long session = admin.getSessionId();
      admin.create("/admin", null, ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
      final Stat stat = new Stat();
      final int before = parse(admin.getConfig(true, stat)).getVotingMembers().size();
      checkRefusals(hosts, admin, joining);

      final byte[] grown = admin.reconfigure(joining, null, null, -1, stat);
      final QuorumMaj config = parse(grown);
      Check.equal("the number of members", config.getVotingMembers().size(), before + joiningCount);
      Check.equal("the version", config.getVersion(), stat.getMzxid());
      final WatchedEvent event = events.changes.poll(PATIENCE_SECONDS, TimeUnit.SECONDS);
      Check.that(event != null && event.getType() == EventType.NodeDataChanged
              && event.getPath().equals(CONFIG), "the watch of the configuration gives " + event);
      Check.that(new String(admin.getConfig(false, stat), StandardCharsets.UTF_8)
              .equals(new String(grown, StandardCharsets.UTF_8)), "getConfig differs from reconfigure");
      // As zkCli.sh prints it for `config -c`.
      final String clients = ConfigUtils.getClientConfigStr(new String(grown, StandardCharsets.UTF_8));
      for (String host : newHosts.split(",")) {
        Check.that(clients.contains(host), clients + " lacks " + host);
      }

      moveTo(admin, events, newHosts);
      final byte[] shrunk = admin.reconfigure(null, leaving, null, config.getVersion(), stat);
      Check.equal("the number of members", parse(shrunk).getVotingMembers().size(), joiningCount);
      expectError(errorOf(admin, null, "4", config.getVersion()), KeeperException.Code.BADVERSION);
      Check.equal("the session", admin.getSessionId(), session);
      Check.equal("the owner of /admin", admin.exists("/admin", false).getEphemeralOwner(), session);
    }
    System.out.println("members changed by ZooKeeperAdmin");
  }
}
