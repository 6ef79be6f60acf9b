"""One file per kind of workload: where its pod templates are, and what stands beside them. Pure."""
