#include "slide.h"

#include <string.h>

#define CHUNK 1024

#ifdef SUM

void bulk(ARGUMENTS) {
  word history = windows[0], room = 2 * history + 4 * CHUNK, end = history, *prefix = words(room);
  for (word i = 0; i <= history; i++) prefix[i] = NEUTRAL;
  for (word begin = 0, count; begin < size; begin += count, end += count) {
    word column = begin % columns;
    count = least(least(size - begin, columns - column), CHUNK);
    if (end + count >= room) {
      memmove(prefix, prefix + end - history, (size_t)(history + 1) * sizeof(word));
      end = history;
    }
    for (word i = 0; i < count; i++) prefix[end + 1 + i] = combine(prefix[end + i], values[begin + i]);
    for (word k = 0; k < queries; k++) {
      const word *newer = prefix + end + 1, *older = newer - windows[k];
      word *into = out + rows[k] + column;
      for (word i = 0; i < count; i++) into[i] = inverse(newer[i], older[i]);
    }
  }
  free(prefix);
}

#else

struct level {
  word *totals, end, room;
};

void bulk(ARGUMENTS) {
  struct level levels[64];
  word height = 1;
  while ((word)1 << height <= windows[0]) height++;
  for (word l = 0; l < height; l++) {
    word room = ((word)2 << l) + 4 * CHUNK;
    levels[l] = (struct level){words(room), (word)1 << l, room};
    for (word i = 0; i < room; i++) levels[l].totals[i] = NEUTRAL;
  }
  for (word begin = 0, count; begin < size; begin += count) {
    word column = begin % columns;
    count = least(least(size - begin, columns - column), CHUNK);
    for (word l = 0; l < height; l++) {
      struct level *at = levels + l;
      word kept = (word)1 << l;
      if (at->end + count > at->room) {
        memmove(at->totals, at->totals + at->end - kept, (size_t)kept * sizeof(word));
        at->end = kept;
      }
      word *into = at->totals + at->end;
      if (l == 0) {
        memcpy(into, values + begin, (size_t)count * sizeof(word));
      } else {
        const word *newer = at[-1].totals + at[-1].end, *older = newer - kept / 2;
        for (word i = 0; i < count; i++) into[i] = combine(older[i], newer[i]);
      }
    }
    word l = height - 1;
    for (word k = 0; k < queries; k++) {
      while ((word)1 << l > windows[k]) l--;
      const word *newer = levels[l].totals + levels[l].end, *older = newer - windows[k] + ((word)1 << l);
      word *into = out + rows[k] + column;
      for (word i = 0; i < count; i++) into[i] = combine(older[i], newer[i]);
    }
    for (word m = 0; m < height; m++) levels[m].end += count;
  }
  for (word m = 0; m < height; m++) free(levels[m].totals);
}

#endif
