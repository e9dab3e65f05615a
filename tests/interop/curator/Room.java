/**
 * What a lock protects, as seen from outside of it: all workers are threads of this process, so a
 * plain counter knows who is inside.
 */
final class Room {
  private final int capacity;
  private int occupied;
  private long entries;

  Room(int capacity) {
    this.capacity = capacity;
  }

  /** Takes `weight` of the capacity; fails if that is not free, which a lock has to prevent. */
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
