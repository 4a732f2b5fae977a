"""Run a tensor program on many local devices: the layer every other layer stands on."""
