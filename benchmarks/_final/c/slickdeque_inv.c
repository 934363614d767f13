#include "slide.h"

void slickdeque_inv(ARGUMENTS) {
  word column = 0, *answers = words(queries);
  for (word k = 0; k < queries; k++) answers[k] = NEUTRAL;
  for (word i = 0; i < size; i++) {
    word newest = values[i], k = 0;
    for (; windows[k] > i; k++) out[rows[k] + column] = answers[k] = combine(answers[k], newest);
    for (; k < queries; k++)
      out[rows[k] + column] = answers[k] = inverse(combine(answers[k], newest), values[i - windows[k]]);
    if (++column == columns) column = 0;
  }
  free(answers);
}
