"""accel-injector: one annotation becomes a TPU or GPU workload, at admission.

How a request flows, and which room does what:

    bytes ── review ─────────► Request            what the API server asked, and a typed view of the object
          ── workloads ──────► Place, Place, …    where the object keeps its pod templates
          ── annotations ────► Ask                what the user said, nearest level wins
          ── catalogue ──────► Accelerator        what that name means in hardware
          ── mutators ───────► Edit, Edit, …      what should be true of the template
          ── patch.render ───► RFC 6902           the only room that knows JSON Pointer
          ── review.encode ──► bytes

Everything from `review` to `admission` is pure: no files, no clock, no network, no logging.
"""

__version__ = "0.1.0"
