"""The world that the model learns to draw: scenes of solids, their words and their pictures.

facts: What every cell of a picture shows, as the renderer knows it: a second thing to learn, beside the picture
    itself.
layout: Where the things of a scene stand and where the camera looks from, as tensors of a whole batch.
render: Pictures of scenes: solids traced, lit by one wide lamp and the sky, laid over the ground from far to near.
scene: What a scene holds: one to three solids of a colour, a material and a size, how they stand, and the ground
    below.
solids: The solids as signed distances, after Inigo Quilez's distance functions
    (iquilezles.org/articles/distfunctions).
trace: Rays through the scene: what a pixel sees of a solid, and how much of the light a point gets.
wording: How people word a scene: which of its facts they mention, in what words and in what order.
"""
