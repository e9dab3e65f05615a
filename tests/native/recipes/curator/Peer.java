// SPDX-License-Identifier: Apache-2.0

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicValue;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.queue.BlockingQueueConsumer;
import org.apache.curator.framework.recipes.queue.MultiItem;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedValue;
import org.apache.curator.retry.RetryForever;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.curator.x.discovery.ServiceType;
import org.apache.curator.x.discovery.UriSpec;

/**
 * Uses recipes together with curator_peer.cc, which does the other half: Curator's classes and the
 * C++ classes work on the same znodes. Exit status 0 if each program saw the other's changes.
 */
public final class Peer {
  private static final int PATIENCE_SECONDS = 20;
  private static final int RETRY_PAUSE_MS = 50;
  private static final int PORT = 8080;
  private static final long REGISTERED_MS = 1700000000000L;

  private Peer() {}

  private static final class Text implements QueueSerializer<String> {
    @Override
    public byte[] serialize(String item) {
      return item.getBytes(StandardCharsets.UTF_8);
    }

    @Override
    public String deserialize(byte[] bytes) {
      return new String(bytes, StandardCharsets.UTF_8);
    }
  }

  private static void expect(Object wanted, Object found) {
    if (!wanted.equals(found)) throw new AssertionError(wanted + " was expected, not " + found);
  }

  private static MultiItem<String> several(String... items) {
    final var rest = List.of(items).iterator();
    return () -> rest.hasNext() ? rest.next() : null;
  }

  private static ServiceDiscovery<String> register(CuratorFramework client) throws Exception {
    final ServiceDiscovery<String> services =
        ServiceDiscoveryBuilder.builder(String.class).client(client).basePath("/services").build();
    services.start();
    services.registerService(
        ServiceInstance.<String>builder()
            .name("web")
            .id("java")
            .address("10.0.0.1")
            .port(PORT)
            .sslPort(PORT + 1)
            .payload("from \"java\"")
            .registrationTimeUTC(REGISTERED_MS)
            .uriSpec(new UriSpec("{scheme}://{address}:{port}"))
            .build());
    services.registerService(
        ServiceInstance.<String>builder()
            .name("web")
            .id("java-plain")
            .address("10.0.0.2")
            .serviceType(ServiceType.STATIC)
            .build());
    return services;
  }

  private static void find(ServiceDiscovery<String> services) throws Exception {
    expect(Set.of("web"), Set.copyOf(services.queryForNames()));
    expect(4, services.queryForInstances("web").size());
    final ServiceInstance<String> found = services.queryForInstance("web", "cpp");
    expect("web", found.getName());
    expect("10.0.0.3", found.getAddress());
    expect(PORT, found.getPort());
    expect(PORT + 1, found.getSslPort());
    expect("from \"cpp\"", found.getPayload());
    expect(REGISTERED_MS, found.getRegistrationTimeUTC());
    expect(ServiceType.DYNAMIC, found.getServiceType());
    expect(true, found.isEnabled());
    final ServiceInstance<String> plain = services.queryForInstance("web", "cpp-plain");
    expect(ServiceType.STATIC, plain.getServiceType());
    expect(false, plain.isEnabled());
    if (plain.getPort() != null || plain.getSslPort() != null || plain.getPayload() != null) {
      throw new AssertionError("it has no ports and no payload: " + plain);
    }
  }

  private static void fillQueues(CuratorFramework client) throws Exception {
    final var text = new Text();
    try (var queue = QueueBuilder.builder(client, null, text, "/queue").buildQueue();
        var priority =
            QueueBuilder.builder(client, null, text, "/priority").buildPriorityQueue(1);
        var delayed = QueueBuilder.builder(client, null, text, "/delayed").buildDelayQueue();
        var ids = QueueBuilder.builder(client, null, text, "/ids").buildIdQueue()) {
      ids.start();
      ids.put("java-1", "a/1");
      ids.put("java-2", "b");
      ids.put("java-3", "a/1");
      expect(true, ids.flushPuts(PATIENCE_SECONDS, TimeUnit.SECONDS));
      queue.start();
      priority.start();
      delayed.start();
      queue.put("java-1");
      queue.putMulti(several("java-2", "java-3"));
      priority.put("java-later", 5);
      priority.put("java-sooner", -5);
      delayed.put("java-due", 1);
      delayed.put("java-not-due", Long.MAX_VALUE / 2);
      expect(true, queue.flushPuts(PATIENCE_SECONDS, TimeUnit.SECONDS));
      expect(true, priority.flushPuts(PATIENCE_SECONDS, TimeUnit.SECONDS));
      expect(true, delayed.flushPuts(PATIENCE_SECONDS, TimeUnit.SECONDS));
    }
    new SimpleDistributedQueue(client, "/simple").offer("java-simple".getBytes(StandardCharsets.UTF_8));
  }

  private static void emptyQueues(CuratorFramework client) throws Exception {
    final var text = new Text();
    final var items = new BlockingQueueConsumer<String>((where, state) -> {});
    try (var queue = QueueBuilder.builder(client, items, text, "/queue").buildQueue()) {
      queue.start();
      expect("cpp-1", items.take(PATIENCE_SECONDS, TimeUnit.SECONDS));
      expect("cpp-2", items.take(PATIENCE_SECONDS, TimeUnit.SECONDS));
    }
    final var urgent = new BlockingQueueConsumer<String>((where, state) -> {});
    try (var queue =
        QueueBuilder.builder(client, urgent, text, "/priority").buildPriorityQueue(1)) {
      queue.start();
      expect("cpp-sooner", urgent.take(PATIENCE_SECONDS, TimeUnit.SECONDS));
      expect("cpp-later", urgent.take(PATIENCE_SECONDS, TimeUnit.SECONDS));
    }
    final var due = new BlockingQueueConsumer<String>((where, state) -> {});
    try (var queue = QueueBuilder.builder(client, due, text, "/delayed").buildDelayQueue()) {
      queue.start();
      expect("cpp-due", due.take(PATIENCE_SECONDS, TimeUnit.SECONDS));
    }
    try (var ids = QueueBuilder.builder(client, null, text, "/ids").buildIdQueue()) {
      ids.start();
      expect(2, ids.remove("x"));
    }
    final var last = new BlockingQueueConsumer<String>((where, state) -> {});
    try (var ids = QueueBuilder.builder(client, last, text, "/ids").buildIdQueue()) {
      ids.start();
      expect("cpp-2", last.take(PATIENCE_SECONDS, TimeUnit.SECONDS));
    }
    final byte[] simple =
        new SimpleDistributedQueue(client, "/simple").poll(PATIENCE_SECONDS, TimeUnit.SECONDS);
    expect("cpp-simple", new String(simple, StandardCharsets.UTF_8));
  }

  /** Returns a selector that leads until `ends` is counted down. */
  private static LeaderSelector lead(CuratorFramework client, CountDownLatch begins, CountDownLatch ends) {
    final var selector =
        new LeaderSelector(
            client,
            "/selector",
            new LeaderSelectorListenerAdapter() {
              @Override
              public void takeLeadership(CuratorFramework same) throws Exception {
                begins.countDown();
                ends.await();
              }
            });
    selector.setId("java");
    selector.start();
    return selector;
  }

  public static void main(String[] arguments) throws Exception {
    final CuratorFramework client =
        CuratorFrameworkFactory.newClient(arguments[0], new RetryForever(RETRY_PAUSE_MS));
    client.start();
    final var gate = new DistributedBarrier(client, "/gate");
    gate.setBarrier();
    fillQueues(client);
    final var number =
        new DistributedAtomicLong(client, "/number", new RetryForever(RETRY_PAUSE_MS));
    expect(5L, number.add(5L).postValue());
    final var count = new SharedCount(client, "/count", 7);
    count.start();
    final var member = new GroupMember(client, "/group", "java", "from java".getBytes(StandardCharsets.UTF_8));
    member.start();
    final ServiceDiscovery<String> services = register(client);
    final var value = new SharedValue(client, "/value", "seed".getBytes(StandardCharsets.UTF_8));
    value.start();
    value.setValue("java".getBytes(StandardCharsets.UTF_8));
    final var mutex = new InterProcessSemaphoreMutex(client, "/semaphore-mutex");
    mutex.acquire();
    final var begins = new CountDownLatch(1);
    final var ends = new CountDownLatch(1);
    final LeaderSelector selector = lead(client, begins, ends);
    expect(true, begins.await(PATIENCE_SECONDS, TimeUnit.SECONDS));
    System.out.println("ready");

    // The other program enters when it has done its half.
    final var both = new DistributedDoubleBarrier(client, "/both", 2);
    expect(true, both.enter(PATIENCE_SECONDS, TimeUnit.SECONDS));
    expect(42L, number.get().postValue());
    client.sync().forPath("/");
    final byte[] bytes = client.getData().forPath("/count");
    expect(4, bytes.length);
    expect(8, (int) bytes[3]);
    expect(Set.of("java", "cpp"), member.getCurrentMembers().keySet());
    expect("from cpp",
        new String(member.getCurrentMembers().get("cpp"), StandardCharsets.UTF_8));
    emptyQueues(client);
    find(services);
    expect(
        "cpp",
        new String(
            new DistributedAtomicValue(client, "/value", new RetryForever(RETRY_PAUSE_MS))
                .get()
                .postValue(),
            StandardCharsets.UTF_8));
    mutex.release();
    ends.countDown();
    expect(true, both.leave(PATIENCE_SECONDS, TimeUnit.SECONDS));
    expect(true, gate.waitOnBarrier(PATIENCE_SECONDS, TimeUnit.SECONDS));
    selector.close();
    value.close();
    services.close();
    member.close();
    count.close();
    client.close();
    System.out.println("done");
  }
}
