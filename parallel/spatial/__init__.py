"""A decoder of pictures over several ranks, each with some of the rows: exact, and with its share of the memory."""
