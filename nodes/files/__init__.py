"""Files that nodes read and write, inside the folders that they may use.

atomic: Write a file so that it is there whole or not at all: temporary name in the same folder, fsync, rename.
audio_files: Sounds as files: reading what may be hostile, writing WAV and FLAC, and the track of a video.
containers: Files that a user names, opened, or one sentence that says what was wanted; video and sound by FFmpeg's
    readers.
picture_files: Pictures as files: reading what may be hostile, writing PNG with the workflow inside.
resize: Picture sizes: which size a picture gets, and scaling it to that size.
thumbnails: Small pictures for a page: of latents on their way, of picture files, of videos and of sounds; and what
    a file's header says.
video_files: Videos as files: H.264 and AAC in MP4 through PyAV, with the workflow in the container's metadata.
workspace: Where a run may read and write files, and the provenance that its results carry.
"""
