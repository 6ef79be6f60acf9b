"""What injection makes true of a pod template: one module per concern."""
