"""Scripts that measure: each writes its tables and figures into a folder."""
