#include "slide.h"

static inline word query(word *partials, word *pointers, word *stack, word mask, word low, word high) {
  word depth = 0, at = low;
  for (word following; (following = pointers[at & mask]) != high; at = following) stack[depth++] = at & mask;
  word total = partials[at & mask];
  while (depth > 1) {
    word slot = stack[--depth];
    partials[slot] = total = combine(partials[slot], total);
    pointers[slot] = high;
  }
  return depth ? combine(partials[stack[0]], total) : total;
}

void flatfit(ARGUMENTS) {
  word ring = ring_size(windows[0]), mask = ring - 1, column = 0;
  word *partials = words(ring), *pointers = words(ring), *stack = words(ring);
  for (word i = 0; i < size; i++) {
    partials[i & mask] = values[i];
    pointers[i & mask] = i + 1;
    for (word k = 0; k < queries; k++)
      out[rows[k] + column] = query(partials, pointers, stack, mask, most(i + 1 - windows[k], 0), i + 1);
    if (++column == columns) column = 0;
  }
  free(partials);
  free(pointers);
  free(stack);
}
