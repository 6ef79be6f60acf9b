"""The subcommands of `accel`, each in its own module."""
