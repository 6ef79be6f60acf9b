"""Every kind of workload: one module per kind, or per family of kinds."""
