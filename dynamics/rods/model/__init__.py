"""What a soft robot is made of, as numbers: rods, links, strain bases, loads and closures as kernels read them."""
