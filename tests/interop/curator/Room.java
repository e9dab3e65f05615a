// SPDX-License-Identifier: Apache-2.0

/**
 * Checks mutual exclusion without the lock under test: all workers are threads of this process, so
 * a plain counter shows how many of them hold the lock.
 */
final class Room {
  private final int capacity;
  private int occupied;
  private long entries;

  Room(int capacity) {
    this.capacity = capacity;
  }

  /** Takes `weight` of the capacity; fails if it is not free, which the lock has to prevent. */
  synchronized void enter(int weight) {
    Check.that(occupied + weight <= capacity,
        "entered with weight " + weight + " while " + occupied + " of " + capacity + " was taken");
    occupied += weight;
    ++entries;
  }

  synchronized void leave(int weight) {
    occupied -= weight;
  }

  synchronized long entries() {
    return entries;
  }
}
