"""Parts of torch_aule.scheduler."""
