"""Files of each user, counted against a quota, listed by pages.

paging: Long lists, sent a page at a time: `limit` rows, those behind the row that `before` names, the last one seen.
quota: What every user keeps on the server's disk, counted as it changes, and how much that may be: for one, and for
    all.
uploads: Files that users bring: written down as they arrive, looked at few at a time, checked, and kept by their
    content in a folder that only this user's runs may read.
user_files: A user's files below the data folder: ids in place of paths, records whole or not at all, damaged ones put
    aside.
"""
