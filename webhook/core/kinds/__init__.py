"""All kinds of workload: one module per kind, or per family of kinds."""
