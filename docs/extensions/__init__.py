"""Extensions of Sphinx that the site is built with, one concept per file."""
