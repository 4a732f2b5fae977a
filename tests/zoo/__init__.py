"""Every transformer class of diffusers, tiny and with random weights, in the shapes that break things."""
