#include "slide.h"

struct stacks {
  word *front, middle, total;
};

void twostacks(ARGUMENTS) {
  struct stacks *copies = malloc((size_t)queries * sizeof *copies);
  for (word k = 0; k < queries; k++) copies[k] = (struct stacks){words(windows[k]), 0, NEUTRAL};
  for (word begin = 0; begin < size; begin += columns) {
    word stop = least(begin + columns, size);
    for (word k = 0; k < queries; k++) {
      word n = windows[k], middle = copies[k].middle, total = copies[k].total;
      word *front = copies[k].front, *into = out + rows[k] - begin;
      for (word at = begin; at < stop;) {
        if (at - middle == n) {
          total = NEUTRAL;
          for (word j = n - 1; j > 0; j--) front[j] = total = combine(values[middle + j], total);
          total = NEUTRAL;
          middle = at;
        }
        word until = least(stop, middle + n);
        if (middle == 0) {
          for (word i = at; i < until; i++) into[i] = total = combine(total, values[i]);
        } else {
          for (word i = at; i < least(until, middle + n - 1); i++) {
            total = combine(total, values[i]);
            into[i] = combine(front[i + 1 - middle], total);
          }
          if (until == middle + n) into[until - 1] = total = combine(total, values[until - 1]);
        }
        at = until;
      }
      copies[k].middle = middle;
      copies[k].total = total;
    }
  }
  for (word k = 0; k < queries; k++) free(copies[k].front);
  free(copies);
}
