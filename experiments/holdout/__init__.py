"""Ten problems on which nothing of the solvers was tuned, each from ten starts fixed beforehand."""
