"""What we read of each kind of workload: one typed view per file."""
