"""From a media part of a request to prepared arrays: one bounded path, one file a stage."""
