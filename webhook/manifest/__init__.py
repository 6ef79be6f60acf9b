"""Manifests: YAML or JSON text in, the same text with accelerators injected out. Pure."""
