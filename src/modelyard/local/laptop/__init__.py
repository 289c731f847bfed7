"""The laptop cluster's mechanics: its folder, its processes, its addresses, its archive. Commands are in cli."""
