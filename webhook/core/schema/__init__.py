"""What msgspec decodes: typed views of objects, of the catalogue and of the site config. Never compiled."""
