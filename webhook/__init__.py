"""accel-injector: one annotation becomes a TPU or GPU workload, at admission.

How a review flows through `core`, and which module does what:

    bytes ── review, schema ────────► Request           what the API server asks, with a typed view of the object

    inject drives these, one after the other; an UPDATE goes through update, which calls inject
          ── kinds.owners ──────────► skipped, or not   another object was decided, and this is a part of it
          ── kinds.templates ───────► PodTemplate, …    where the object has its pod templates
          ── annotations ───────────► TypeRequest       what the user asks for; the nearest level wins
          ── catalogue ─────────────► Accelerator       what that type means in hardware
          ── resolution, devices ───► Resolution        both, and which containers get how many devices
          ── kinds.resolve_group ───► Resolution, …     with what only the whole object knows: slices, host names
          ── rules, kinds ──────────► Edit, Warn, …     what should be true of each template and of the object
    and returns all edits and warnings as an Injection

          ── update ────────────────► Injection         on UPDATE: what agrees with the stored object
          ── unread ────────────────► Warn, …           keys of ours where nobody reads them
          ── patch ─────────────────► RFC 6902          the only module that writes JSON Pointers
          ── review ────────────────► bytes

`core/admission.py` is all of this as one pure function: no files, no clock, no network, no logging. Around it,
`server` receives reviews over HTTPS; `manifest` and `command` do the same for YAML text, which `core/yaml` reads, and
call `inject` themselves; `check` checks a cluster, `load` reads site config and catalogue from disk, and `errors` has
every error that a user can cause.
"""

__version__ = "0.1.0"
