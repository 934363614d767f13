#include "slide.h"

static word query(const word *nodes, word leaves, word low, word high) {
  word total = NEUTRAL, at = low, level = 0;
  for (; at + ((word)1 << level) <= high; level++)
    if ((at >> level) & 1) {
      total = combine(total, nodes[(leaves + (at & (leaves - 1))) >> level]);
      at += (word)1 << level;
    }
  while (level > 0) {
    level--;
    if (at + ((word)1 << level) <= high) {
      total = combine(total, nodes[(leaves + (at & (leaves - 1))) >> level]);
      at += (word)1 << level;
    }
  }
  return total;
}

void bint(ARGUMENTS) {
  word leaves = ring_size(windows[0]), column = 0, *nodes = words(2 * leaves);
  for (word i = 0; i < size; i++) {
    word node = leaves + (i & (leaves - 1)), total = values[i];
    nodes[node] = total;
    while (node & 1 && node > 1) {
      total = combine(nodes[node - 1], total);
      nodes[node >>= 1] = total;
    }
    for (word k = 0; k < queries; k++)
      out[rows[k] + column] = query(nodes, leaves, most(i + 1 - windows[k], 0), i + 1);
    if (++column == columns) column = 0;
  }
  free(nodes);
}
