"""One package a platform system; each the same rooms."""
