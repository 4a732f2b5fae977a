"""What `latentloom doctor` finds out about a machine, one finding after another.

devices: The doctor on accelerators: each GPU, the links between them, collectives, and attention kernels.
examine: `latentloom doctor`: what of this machine keeps latentloom from working or from being fast, and how to mend
    it.
finding: A finding of `latentloom doctor`: one thing that was looked at, how it is, and how to mend it.
packages: The doctor on versions: Python and the packages against what latentloom asks for, and what its tests passed
    with.
system: The doctor on the operating system: memory, space, limits, and what the ranks of a pool need of it.
"""
