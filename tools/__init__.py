"""Programs for those who work on Modelyard; nothing of this is installed."""
