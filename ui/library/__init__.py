"""A user's saved workflows, drafts, shares and apps.

app_form: The form of an app: its settings, what they take, which pictures masks lie over, which results it shows.
apps: Links to saved workflows, and apps: what others run under such a link by a form of its settings.
drafts: Drafts: what a page had on its canvas last, saved or not, valid or not.
library: The library: every user's saved workflows, with all their versions, folders and thumbnails.
named: Workflows by the names under which programs run them: saved ones, apps and templates; and what may be set of
    each.
roles: Which inputs of a workflow are its prompt, size, seed, pictures, mask and length: declared, or as they look.
shipped: The workflows that come with the page: ready ones to start from, small ones for each node, and their pictures.
workflow_files: One user's saved workflows on the disk: a folder each, with a head, a file for each version, and a
    thumbnail.
"""
