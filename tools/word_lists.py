"""Words that names, constants, docstrings and messages of this project avoid, and what stands for them."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


# Names that stand for a noun without saying which: fine for three lines, a riddle for more.
PRONOUNS = _words(
    """
    asked each found kept known made mine said some told wanted both either everything neither nothing
    ours something such that theirs them these they thing things this those what which who whom whose
    """
)

# Beginnings of docstrings that are neither an imperative nor a noun phrase.
CLAUSE_BEGINNINGS = _words(
    """
    How However If It Its That There These They This Those What Whatever When Where Wherever Whether Which
    Whichever Who Whom Whose Why
    """
)

# Beginnings that say what a thing does: of a function say what to do, of a class what it is.
THIRD_PERSON_VERBS = _words(
    """
    Adds Carries Collects Computes Creates Evaluates Gets Gives Keeps Lets Looks Makes Opens POSTs Prints Puts
    Reads Returns Says Sends Sets Shows Takes Talks Tells Tries Turns Wraps Writes Yields
    """
)

# Words of constants that are no noun: a constant whose words are all of these does not say what it is about.
NON_NOUNS = _words(
    """
    ABOUT ABOVE AFTER AHEAD ALL ALONE AND ANY APART ASSUMED AT BAD BEFORE BELOW BESIDE BETTER BETWEEN
    BEYOND BIG BROKEN BUSY CLEARLY CLOSED COLD COMPARED COMPILED COMPRESSED COPYING COUNTED DEAD DEEPER
    DEFAULT DEFINED DENSE DIVERSE EACH ELSEWHERE ENCODED ENOUGH EVERY EXACT FAR FASTER FASTEST FEW FEWEST
    FIRST FIXED FLYING FOLLOWED FULL HALF HASHED HELD HIGHEST HOT IN INSIDE KEEP KEPT LACKING LANDED LARGE
    LARGER LARGEST LAST LATE LEAST LESS LET LITTLE LONG LONGER LONGEST LOOKED LOWEST MANY MERGED MIRRORED
    MORE MOST MUCH NEAR NEWEST NONE NORMAL NOTHING NUMBERED NUMERIC OLD OLDEST ON ONCE ONLY OPEN OPENED
    OPTIMIZED ORDERED OTHERWISE OURS OWN PACKED PASSED PLAIN QUICK QUIET QUOTED RAISED READ READABLE READS
    RECENT REDUCED REFUSED REJECTED REMEMBERED SAME SANE SEARCHED SHALLOWER SHARED SHIPPING SHORT SHORTER
    SHORTEST SHOWN SIMILAR SINGLE SLOW SMALL SMALLER SMALLEST SOME SPARSE SPECIAL SUMMED TAKES THEIRS
    TIMELESS TOGETHER TOO TWELVE UNBOUNDED UNREAD UNREADABLE UP WAITING WIDE WIDEST WORST WRITTEN ZONED
    """
)

# Nouns that name a unit or a quantity, or a thing that is bounded, but not the bound: alone they are no name
# for a number ("rows of what, at most or at least?"). Parameters of a benchmark are called so with right.
BARE_QUANTITIES = _words(
    """
    ADD BATCH BLOCK BODY BYTES CELL CELLS CHECKS CHUNK DRAWS FILES GROUPS HOLES KEY KEYS LABELS LIMIT
    LINES LOOK_BACK MARGIN MARKS MEMORY MINUTES MOVES NAME NAMES PACK PARTS PAUSE POLL QUERIES RATE ROW
    ROWS RUN SAMPLE SEARCH SECONDS SEGMENT SILENCE SIZE SLACK SPANS SQL THRIFT TICKS TILE TIMEOUT
    TOLERANCE TRIES WAIT WORDS WORK
    """
)

# Names of classes and constants that were given up, and their successors.
RETIRED_NAMES = {
    "ALWAYS": "END_OF_TIME",
    "END": "END_OF_TIME",
    "NEVER": "BEGINNING_OF_TIME",
    "PATIENCE": "a timeout with its unit",
    "Asked": "PendingChange or DueWindows",
    "Book": "OrderBook",
    "Carried": "Shipped",
    "Committing": "Driver",
    "Door": "ServerAddress",
    "Doors": "RequestGuard",
    "Enrichment": "Lookups",
    "Flight": "Round",
    "Held": "CachedState",
    "Join": "BoundLookup",
    "Laps": "Stopwatch",
    "Line": "Lineage",
    "LookUp": "LookupIndex",
    "Moment": "StreamPosition",
    "Move": "CarryOver",
    "Page": "OrderStatistics",
    "Saved": "StateRef",
    "Sender": "Broadcast",
    "Served": "RunService",
    "Signs": "Signatures",
    "Streams": "JoinCompiler",
    "TableJoin": "Lookup",
    "Transfer": "CarryOver",
    "Watch": "RateMeter",
}

# Phrases of messages and pages that a reader would not search for, and the words of the field.
RETIRED_PHRASES = {
    "half a character": "invalid UTF-8",
    "is not whole": "is truncated",
    "let a query join": "add a query",
    "says so": "reports",
    "static table": "lookup table",
    "static tables": "lookup tables",
    "told": "reported",
}

# Whole string literals: states of a query in the API.
RETIRED_LITERALS = {"joining": "adding", "leaving": "dropping"}
