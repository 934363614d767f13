#include "slide.h"

#define RUN 256
#define LONG 8

static void by_slide(const word *restrict prefix, const word *restrict suffix, const word *restrict windows,
                     word queries, const word *restrict rows, word filled, word count, word *restrict out) {
  for (word s = 0; s < count; s++) {
    word total = prefix[filled + s], k = 0;
    for (; windows[k] > filled + s; k++)
      out[rows[k] + s] = combine(suffix[filled + s - windows[k] + windows[0]], total);
    for (; k < queries; k++) out[rows[k] + s] = inverse(total, prefix[filled + s - windows[k]]);
  }
}

static void by_query(const word *restrict prefix, const word *restrict suffix, const word *restrict windows,
                     word queries, const word *restrict rows, word filled, word count, word *restrict out) {
  for (word k = 0; k < queries; k++) {
    word oldest = filled - windows[k], before_lap = oldest + windows[0], *into = out + rows[k];
    word cut = least(most(-oldest, 0), count);
    for (word s = 0; s < cut; s++) into[s] = combine(suffix[before_lap + s], prefix[filled + s]);
    for (word s = cut; s < count; s++) into[s] = inverse(prefix[filled + s], prefix[oldest + s]);
  }
}

void slideside_inv(ARGUMENTS) {
  word widest = windows[0], lap = 0, column = 0, *prefix = words(widest + 1), *suffix = words(widest + 1);
  for (word i = 0; i <= widest; i++) suffix[i] = NEUTRAL;
  prefix[0] = NEUTRAL;
  for (word i = 0, count; i < size; i += count) {
    if (i - lap == widest) {
      word total = NEUTRAL;
      for (word j = widest - 1; j >= 0; j--) suffix[j] = total = combine(values[lap + j], total);
      lap = i;
    }
    word filled = i - lap, total = prefix[filled];
    count = least(least(size - i, columns - column), least(widest - filled, RUN));
    for (word s = 0; s < count; s++) prefix[filled + 1 + s] = total = combine(total, values[i + s]);
    (count < LONG ? by_slide : by_query)(prefix, suffix, windows, queries, rows, filled + 1, count,
                                         out + column);
    if ((column += count) == columns) column = 0;
  }
  free(prefix);
  free(suffix);
}
