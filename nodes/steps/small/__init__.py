"""Small nodes between the large ones: numbers, choices, texts and sizes.

expression: Arithmetic in words: a formula of numbers, read and reckoned without Python's own `eval`.
measures: Sizes and differences: Picture Size, Size from Ratio, Compare Pictures and Batch Pictures.
numbers: Integer, Float, Boolean and Calculate; and Switch: one of two inputs, of which the other is not made.
texts: Text edits: Replace Text, Split Text, Format Text and Change Case.
varying: Vary Text: a text with choices and with lines of files, made by a seed, alike on every machine and version.
"""
