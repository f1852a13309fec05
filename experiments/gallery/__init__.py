"""Pictures, iterations and times of all problems, for the gallery of the site."""
