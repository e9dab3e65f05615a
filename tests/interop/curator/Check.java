// SPDX-License-Identifier: Apache-2.0

/** Checks that throw an AssertionError when an invariant does not hold. */
final class Check {
  private Check() {}

  static void that(boolean condition, String message) {
    if (!condition) throw new AssertionError(message);
  }

  static void equal(String what, long value, long wanted) {
    that(value == wanted, what + " is " + value + ", not " + wanted);
  }

  static void between(String what, long value, long least, long most) {
    that(least <= value && value <= most,
        what + " is " + value + ", not between " + least + " and " + most);
  }
}
