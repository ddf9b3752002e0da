"""The main job on a cluster: :class:`RayEngine`, for the ``engine`` of :func:`gpusim.dedup.dedup`.

Nothing here knows an algorithm: the job's own functions are arranged, and their results put together.
"""

from gpusim.distributed.engine import RayEngine

__all__ = ["RayEngine"]
