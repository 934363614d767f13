"""Files of one of Spark's batches, in order; written down where several steps take them.

A step that is made again, and those after it, take the same files then, whatever has become of the files in
the meantime: one that was changed or removed keeps its place in the order.

    files/0000000012.json     the files of batch 12, the last that was taken in several steps
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pyarrow import fs

from weft.errors import CheckpointError
from weft.io.files import ListedFile
from weft.io.filesystem import join, write_atomically
from weft.store.slice_store import SliceStore

FILES = "files"

ByStream = Mapping[str, Sequence[ListedFile]]


def settle(store: SliceStore, batch_id: int, listed: ByStream) -> ByStream:
    """Write down the files of a batch, by stream; what was written down before holds."""
    folder = join(store.path, FILES)
    path = join(folder, f"{batch_id:010}.json")
    try:
        names = {i.path for i in store.system.get_file_info(fs.FileSelector(folder, allow_not_found=True))}
        if path not in names:
            if store.taken(batch_id) and names:
                raise FileNotFoundError("it is missing")
            for name in names:
                store.system.delete_file(name)
            content = {stream: [[f.path, f.size] for f in files] for stream, files in listed.items()}
            write_atomically(store.system, path, json.dumps(content).encode())
            return listed
        with store.system.open_input_stream(path) as source:
            content = json.loads(source.read())
        return {stream: [ListedFile(*file) for file in files] for stream, files in content.items()}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise CheckpointError(
            f"'{path}', which has the files of batch {batch_id}, cannot be used: {error}; restore it from a "
            "backup, or start again with an empty checkpoint directory"
        ) from error
