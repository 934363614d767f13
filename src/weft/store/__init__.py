"""State on disk: manifests, layers and versions of a checkpoint."""
