#include "slide.h"

void recompute(ARGUMENTS) {
  word column = 0;
  for (word i = 0; i < size; i++) {
    for (word k = 0; k < queries; k++) {
      word first = most(i + 1 - windows[k], 0);
      word total = values[first];
      for (word j = first + 1; j <= i; j++) total = combine(total, values[j]);
      out[rows[k] + column] = total;
    }
    if (++column == columns) column = 0;
  }
}
