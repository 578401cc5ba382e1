"""Programs that show the device at work."""
