"""The blend worker: recovers a prompt whose cached chunks have gaps."""
