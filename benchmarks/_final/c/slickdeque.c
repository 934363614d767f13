#include "slide.h"

void slickdeque(ARGUMENTS) {
  word ring = ring_size(windows[0]), mask = ring - 1, head = 0, tail = 0, column = 0;
  word *positions = words(ring), *nodes = words(ring);
  for (word i = 0; i < size; i++) {
    word newest = values[i];
    if (head < tail && positions[head & mask] <= i - windows[0]) head++;
    while (head < tail && combine(nodes[(tail - 1) & mask], newest) == newest) tail--;
    positions[tail & mask] = i;
    nodes[tail & mask] = newest;
    tail++;
    word at = head;
    for (word k = 0; k < queries; k++) {
      while (positions[at & mask] <= i - windows[k]) at++;
      out[rows[k] + column] = nodes[at & mask];
    }
    if (++column == columns) column = 0;
  }
  free(positions);
  free(nodes);
}
