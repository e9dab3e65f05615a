// SPDX-License-Identifier: Apache-2.0

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryForever;

/** Waits for a lock, prints "held", and releases it when a line arrives: Contender HOSTS PATH. */
public final class Contender {
  private static final int RETRY_PAUSE_MS = 50;

  private Contender() {}

  public static void main(String[] arguments) throws Exception {
    try (CuratorFramework client =
        CuratorFrameworkFactory.newClient(arguments[0], new RetryForever(RETRY_PAUSE_MS))) {
      client.start();
      final var mutex = new InterProcessMutex(client, arguments[1]);
      mutex.acquire();
      System.out.println("held");
      System.in.read();
      mutex.release();
      System.out.println("released");
    }
  }
}
