"""The Blend service."""
