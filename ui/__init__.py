"""The page that builds, runs and saves graphs."""
