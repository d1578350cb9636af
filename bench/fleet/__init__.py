"""A fleet of simulated devices: how far one tuner, one scheduler and one search reach."""
