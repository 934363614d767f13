/* What the plain C forms of the techniques share: one word per state, and one of three operations.

   Each technique is one function of its own file,
       void technique(values, size, windows, queries, rows, columns, out)
   the counterpart of its slide kernel: after each of `size` values, the answer of window k goes to
   out[rows[k] + i % columns]. The widest window comes first, and a zero after the last. */

#include <stdint.h>
#include <stdlib.h>

typedef int64_t word;

#define ARGUMENTS                                                                                       \
  const word *restrict values, word size, const word *restrict windows, word queries,                  \
      const word *restrict rows, word columns, word *restrict out

#if defined(SUM)
#define NEUTRAL 0
static inline word combine(word older, word newer) { return older + newer; }
static inline word inverse(word total, word oldest) { return total - oldest; }
#elif defined(MIN)
#define NEUTRAL INT64_MAX
static inline word combine(word older, word newer) { return newer < older ? newer : older; }
#else
#define NEUTRAL INT64_MIN
static inline word combine(word older, word newer) { return newer > older ? newer : older; }
#endif

static inline word *words(word count) { return malloc((size_t)count * sizeof(word)); }
static inline word least(word a, word b) { return a < b ? a : b; }
static inline word most(word a, word b) { return a > b ? a : b; }

/* The smallest power of two that holds so many states. */
static inline word ring_size(word states) {
  word size = 1;
  while (size < states) size *= 2;
  return size;
}
