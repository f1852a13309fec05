"""The site: pages in Markdown, and what builds them."""
