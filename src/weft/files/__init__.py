"""Files as a stream of Arrow tables: Parquet, CSV and JSON lines, read with pyarrow in any process."""

from weft.files.chunk import Chunk
from weft.files.source import Files
from weft.files.split import Found, Split

__all__ = ["Chunk", "Files", "Found", "Split"]
