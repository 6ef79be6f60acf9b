"""What decides. Pure: no files, no clock, no network, no logging."""
