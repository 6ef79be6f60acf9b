"""The certificates of the webhook: who signs them, when they are renewed, where they are kept.

`authority` and `rotation` are pure (time is a parameter); `store` alone talks to the Kubernetes API.
"""
