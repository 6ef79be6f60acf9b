"""YAML as kubectl reads it: nodes with their positions, and files of an admin decoded into Structs. Never compiled."""
