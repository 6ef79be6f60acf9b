"""The command `accel`: what its words do, each in its own module."""
