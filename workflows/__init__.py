"""Saved workflows, data only.

bobbin/picture.png is what first_picture makes, without its metadata: `latentloom run first_picture`, then
`Image.open(made).convert("RGB").save(path, optimize=True)`; middle.png is a white circle for its middle.
"""
