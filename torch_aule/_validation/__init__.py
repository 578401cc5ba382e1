"""What ``torch_aule.validation`` is made of: errors and tolerances, runs of models, and results."""
