#include "slide.h"

static word query(const word *tree, word leaves, word low, word high) {
  word total = NEUTRAL;
  for (word at = low; at < high;) {
    word stop = least(high, (at | (leaves - 1)) + 1), a = leaves + (at & (leaves - 1));
    word b = a + stop - at, right = NEUTRAL;
    for (; a < b; a >>= 1, b >>= 1) {
      if (a & 1) total = combine(total, tree[a++]);
      if (b & 1) right = combine(tree[--b], right);
    }
    total = combine(total, right);
    at = stop;
  }
  return total;
}

void flatfat(ARGUMENTS) {
  word leaves = ring_size(windows[0]), column = 0, *tree = words(2 * leaves);
  for (word i = 0; i < 2 * leaves; i++) tree[i] = NEUTRAL;
  for (word i = 0; i < size; i++) {
    word node = leaves + (i & (leaves - 1)), total = values[i];
    tree[node] = total;
    while (node > 1) {
      word sibling = tree[node ^ 1];
      total = node & 1 ? combine(sibling, total) : combine(total, sibling);
      tree[node >>= 1] = total;
    }
    for (word k = 0; k < queries; k++)
      out[rows[k] + column] =
          windows[k] == leaves ? tree[1] : query(tree, leaves, most(i + 1 - windows[k], 0), i + 1);
    if (++column == columns) column = 0;
  }
  free(tree);
}
