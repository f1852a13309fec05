"""What compiles for which kind of problem, and its compilation ahead, by several processes at once."""
