"""What tests use and is no test itself: one noun per file."""
