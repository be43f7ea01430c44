"""Hot reload: what a running server reads again when its files change, and what it says about that."""
