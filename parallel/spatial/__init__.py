"""A convolutional decoder over bands of rows, one for each rank, which exchange the rows at their edges.

attention: Attention of this rank's rows to all: keys and values are gathered, in a middle block at the latents' size.
convolution: Padding and convolutions over rows that several ranks hold: the neighbours' rows in place of padding.
group_norm: Group normalisation over rows that several ranks hold.
mode: Decoding a picture by rows: the interception of torch functions that makes every operation exact, or refuses it.
part: Parts of pictures: which dim of a tensor holds this rank's rows, and how many rows every rank holds.
shapes: Functions that mix no rows: which dim of their result holds this rank's rows.
"""

# On each rank. With one row only, a reshape does not show which dim holds it; a convolution's edge needs two.
LEAST_ROWS = 2
