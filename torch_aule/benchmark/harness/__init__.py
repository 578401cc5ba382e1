"""Timing of cases: in rounds with a baseline beside them, on the device's clock and on the host's."""
