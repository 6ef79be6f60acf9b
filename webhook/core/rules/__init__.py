"""What is injected into a pod template: one module per concern."""
