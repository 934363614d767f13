#include "slide.h"

static void one(const word *restrict values, word size, word n, word columns, word *restrict out) {
  word ring = ring_size(n), mask = ring - 1, *queue = words(ring);
  word first = 0, left = 0, right = 0, a = 0, b = 0, end = 0, column = 0;
  word middle = NEUTRAL, back = NEUTRAL;
  for (word i = 0; i < size; i++) {
    word low = most(i + 1 - n, 0);
    while (end <= i || first < low) {
      if (first < low) {
        first++;
      } else {
        queue[end & mask] = values[end];
        back = combine(back, values[end]);
        end++;
      }
      if (left == b) {
        left = first;
        right = b;
        a = b = end;
        middle = back;
        back = NEUTRAL;
      }
      if (first == b) {
        middle = back = NEUTRAL;
        continue;
      }
      if (a != right) {
        word total = queue[(a - 1) & mask];
        if (a != b) total = combine(total, queue[a & mask]);
        a--;
        queue[a & mask] = total;
      }
      if (left != right) {
        queue[left & mask] = combine(queue[left & mask], middle);
        left++;
      } else {
        left++;
        right++;
        a++;
        middle = a == b ? NEUTRAL : queue[a & mask];
      }
    }
    out[column] = first == b ? back : combine(queue[first & mask], back);
    if (++column == columns) column = 0;
  }
  free(queue);
}

void daba_lite(ARGUMENTS) {
  for (word k = 0; k < queries; k++) one(values, size, windows[k], columns, out + rows[k]);
}
