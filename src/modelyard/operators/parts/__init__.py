"""What every operator needs and none should write twice: typed core parts, small object builders, conditions, certificates."""
