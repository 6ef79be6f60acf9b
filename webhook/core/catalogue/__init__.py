"""What an accelerator's name means in hardware."""
