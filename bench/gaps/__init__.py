"""A short kernel that is called again and again, with gaps between the calls."""
