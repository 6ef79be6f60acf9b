"""The webhook's certificates: who signs them, when they are renewed, where they are stored.

    store.read ───────► Keyring, entries      the CA Secret, and the caBundle of every webhook entry
    directory.leaf ───► KeyPair               what this replica serves
    rotation.decide ──► Action                the next step, and only that
    run.Loop ─────────► store, directory      takes it, reads again, waits for a change

`pki`, `keyring`, `rotation`, `state`, `inventory` and `duration` are pure: bytes in, bytes out, and time is
a parameter. `api` and `store` talk to the Kubernetes API, `directory` to a file system, `run` and `cli` to both.
Nothing here knows about the webhook.
"""
