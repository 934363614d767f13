#include "slide.h"

void soe(ARGUMENTS) {
  word *totals = words(queries);
  for (word k = 0; k < queries; k++) totals[k] = NEUTRAL;
  for (word begin = 0; begin < size; begin += columns) {
    word stop = least(begin + columns, size);
    for (word k = 0; k < queries; k++) {
      word n = windows[k], total = totals[k], full = least(most(n, begin), stop);
      word *into = out + rows[k] - begin;
      for (word i = begin; i < full; i++) into[i] = total = combine(total, values[i]);
      for (word i = full; i < stop; i++)
        into[i] = total = inverse(combine(total, values[i]), values[i - n]);
      totals[k] = total;
    }
  }
  free(totals);
}
