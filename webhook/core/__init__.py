"""The decisions. Pure: no files, no clock, no network, no logging."""
