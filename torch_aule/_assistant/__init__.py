"""Parts of torch_aule.assistant."""
