"""Saved workflows, data only: a folder for each model, and in bobbin/nodes a small one for each node that needs it.

bobbin/picture.png is what first_picture makes, without its metadata: `latentloom run first_picture`, then
`Image.open(made).convert("RGB").save(path, optimize=True)`; middle.png is a white circle for its middle. clip.mp4 fades
in 16 frames from picture.png to image_to_image.png (`write_video`, 8 frames a second, quality 23); tone.flac is two
seconds of a tone of 440 Hz that dies away, `0.5 * exp(-2 * s) * sin(2 * pi * 440 * s)`, at 8000 a second.
"""
