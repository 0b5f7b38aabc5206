"""Models that draw examples: autoencoders, adversarial networks, flows, autoregressive models of pixels."""
