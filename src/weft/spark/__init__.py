"""weft on Spark: the same stages as in process, in the tasks of one job per batch."""

from weft.io.files import Files
from weft.io.kafka import Kafka
from weft.io.sources.generated import Generated
from weft.runner.progress import Progress
from weft.spark.batch import share
from weft.spark.run import Run
from weft.spark.session import session
from weft.spark.stream import stream

__all__ = ["Files", "Generated", "Kafka", "Progress", "Run", "session", "share", "stream"]
