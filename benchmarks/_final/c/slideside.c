#include "slide.h"

#define RUN 256
#define LONG 8

static void flip(const word *restrict values, word *restrict suffix, word mask, word oldest, word flipped,
                 word end) {
  word total = NEUTRAL, i = end - 1;
  for (; i >= most(oldest, flipped); i--) suffix[i & mask] = total = combine(values[i], total);
  for (; i >= oldest; i--) {
    total = combine(values[i], total);
    if (total == suffix[i & mask]) break;
    suffix[i & mask] = total;
  }
}

static void by_slide(const word *restrict suffix, word ring, const word *restrict totals,
                     const word *restrict windows, word queries, const word *restrict rows, word i,
                     word count, word *restrict out) {
  for (word s = 0; s < count; s++) {
    word k = 0;
    for (; windows[k] > i + s; k++) out[rows[k] + s] = combine(suffix[0], totals[s]);
    for (; k < queries; k++)
      out[rows[k] + s] = combine(suffix[(i + s + 1 - windows[k]) & (ring - 1)], totals[s]);
  }
}

static void by_query(const word *restrict suffix, word ring, const word *restrict totals,
                     const word *restrict windows, word queries, const word *restrict rows, word i,
                     word count, word *restrict out) {
  for (word k = 0; k < queries; k++) {
    word slot = (i + 1 - windows[k]) & (ring - 1), cut = least(ring - slot, count), *into = out + rows[k];
    for (word s = 0; s < cut; s++) into[s] = combine(suffix[slot + s], totals[s]);
    for (word s = cut; s < count; s++) into[s] = combine(suffix[s - cut], totals[s]);
  }
}

void slideside(ARGUMENTS) {
  word ring = ring_size(windows[0] + 1), mask = ring - 1, *suffix = words(ring), *totals = words(RUN);
  word total = NEUTRAL, flipped = 0, column = 0, narrowest = windows[queries - 1];
  suffix[0] = NEUTRAL;
  for (word i = 0, count; i < size; i += count) {
    if (i - flipped == narrowest) {
      flip(values, suffix, mask, most(i + 1 - windows[0], 0), flipped, i);
      flipped = i;
      total = suffix[i & mask] = NEUTRAL;
    }
    count = least(least(size - i, columns - column), least(flipped + narrowest - i, RUN));
    for (word s = 0; s < count; s++) totals[s] = total = combine(total, values[i + s]);
    (count < LONG || i < windows[0] ? by_slide : by_query)(suffix, ring, totals, windows, queries, rows, i,
                                                           count, out + column);
    if ((column += count) == columns) column = 0;
  }
  free(suffix);
  free(totals);
}
