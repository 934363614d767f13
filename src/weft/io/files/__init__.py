"""Files as a stream of Arrow tables: Parquet, CSV and JSON lines, read with pyarrow in any process."""

from weft.io.files.chunk import Chunk
from weft.io.files.source import Files
from weft.io.files.split import FileSplit, ListedFile

__all__ = ["Chunk", "FileSplit", "Files", "ListedFile"]
