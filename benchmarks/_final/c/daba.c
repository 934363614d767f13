#include "slide.h"

static void one(const word *restrict values, word size, word n, word columns, word *restrict out) {
  word ring = ring_size(n), mask = ring - 1, *queue = words(ring), *totals = words(ring);
  word first = 0, left = 0, right = 0, a = 0, b = 0, end = 0, column = 0;
  for (word i = 0; i < size; i++) {
    word low = most(i + 1 - n, 0);
    while (end <= i || first < low) {
      if (first < low) {
        first++;
      } else {
        word newest = values[end];
        queue[end & mask] = newest;
        totals[end & mask] = b == end ? newest : combine(totals[(end - 1) & mask], newest);
        end++;
      }
      if (left == b) {
        left = first;
        right = b;
        a = b = end;
      }
      if (first == b) continue;
      if (a != right) {
        word total = queue[(a - 1) & mask];
        if (a != b) total = combine(total, totals[a & mask]);
        a--;
        totals[a & mask] = total;
      }
      if (left != right) {
        word total = totals[left & mask];
        if (a != right) total = combine(total, totals[(a - 1) & mask]);
        if (a != b) total = combine(total, totals[a & mask]);
        totals[left & mask] = total;
        left++;
      } else {
        left++;
        right++;
        a++;
      }
    }
    word total = first == b ? NEUTRAL : totals[first & mask];
    out[column] = b == end ? total : combine(total, totals[(end - 1) & mask]);
    if (++column == columns) column = 0;
  }
  free(queue);
  free(totals);
}

void daba(ARGUMENTS) {
  for (word k = 0; k < queries; k++) one(values, size, windows[k], columns, out + rows[k]);
}
