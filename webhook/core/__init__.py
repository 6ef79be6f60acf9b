"""What is injected, and why not. Pure: no files, no clock, no network, no logging. `inject` drives it."""
