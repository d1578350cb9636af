"""The passes that only GPUs need."""
