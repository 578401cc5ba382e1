"""A training script that a launcher starts: transformers' Trainer in as many processes, with one process's losses.

Arguments: how many processes there should be, and the folder for the losses and checkpoints.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

processes, folder = int(sys.argv[1]), Path(sys.argv[2])
BATCH, STEPS, WORDS = 8, 10, 40  # BATCH: of all processes together

options = TrainingArguments(
    str(folder), per_device_train_batch_size=BATCH // processes, per_device_eval_batch_size=BATCH // processes,
    max_steps=STEPS, logging_steps=1, save_steps=STEPS, learning_rate=1e-2, report_to=[], disable_tqdm=True, seed=3,
)  # fmt: skip
rank = int(os.environ.get("RANK", "0"))
assert options.world_size == processes and options.process_index == rank, (options.world_size, options.process_index)
assert options.device == torch.device("aule", rank), options.device
# Trainer has set the seed of the weights only if it makes the model.
torch.manual_seed(5)
config = LlamaConfig(
    vocab_size=WORDS, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=16, bos_token_id=1, eos_token_id=2, pad_token_id=0,
)  # fmt: skip
start = torch.randint(3, 20, (52, 1))
rows = [{"input_ids": row, "labels": row} for row in start + torch.arange(8)]
trainer = Trainer(LlamaForCausalLM(config), options, train_dataset=rows[:40], eval_dataset=rows[40:])
trainer.train()
wrapped = trainer.model_wrapped
assert isinstance(wrapped, torch.nn.parallel.DistributedDataParallel) == (processes > 1), type(wrapped)
assert next(trainer.model.parameters()).device == options.device
losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
assert len(losses) == STEPS and losses[-1] < losses[0], losses
losses.append(trainer.evaluate()["eval_loss"])
predicted = trainer.predict(rows[40:]).predictions
assert predicted.shape == (12, 8, WORDS), "a row for each of the rows of all processes"
losses.append(float(abs(predicted).mean()))

# Rank 0 alone has written the checkpoint: its random states are every rank's, the rest is once there.
saved = {path.name for path in (folder / f"checkpoint-{STEPS}").iterdir()}
states = {f"rng_state_{r}.pth" for r in range(processes)} if processes > 1 else {"rng_state.pth"}
assert states | {"model.safetensors", "optimizer.pt", "trainer_state.json"} <= saved, saved
assert options.should_save == (rank == 0)
restored = LlamaForCausalLM.from_pretrained(folder / f"checkpoint-{STEPS}")
for name, parameter in trainer.model.named_parameters():
    assert torch.equal(parameter.detach().cpu(), restored.get_parameter(name)), name
if trainer.is_world_process_zero():
    torch.save(losses, folder / "losses.pt")
