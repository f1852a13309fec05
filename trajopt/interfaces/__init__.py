"""What systems, residuals and whatever is made for a robot must offer: the protocols that problems rest on."""
