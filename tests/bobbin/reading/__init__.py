"""Reading a picture back: which solids of which colours are in it, and where.

palette: Which object's colour a pixel shows, if any: a table over all colours, filled by the renderer.
reading: Read a picture back: which objects it shows, and where. No model: colours by `palette`, outlines and paint by
    `templates`, and both of those are made by the renderer.
templates: Every solid as the camera can show it, to hold against a picture: outlines, and how they look when painted.
"""
