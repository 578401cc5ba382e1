"""Parts of PyTorch that are replaced so that they know the device; each module has `install`."""
