"""lightning, sentence-transformers and ultralytics train and predict on the device, on tiny random models.

They are no requirement of the tests (test_integrations_stubs.py has stand-ins for them): what is not installed is left
out. `pip install torch_aule[nightly]` installs them, and .github/workflows/nightly.yml runs this file.
"""

import importlib
import os

import pytest
import torch

from torch_aule import integrations

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason="beside CUDA the packages choose it, and the hooks stay off"
)


def package(name):
    """The package, or a skip that says how it comes to be there."""
    return pytest.importorskip(name, reason=f"{name} is not installed: pip install torch_aule[nightly]")


@pytest.fixture
def not_strict_either():
    with torch.aule.strict(False):
        yield


@pytest.mark.parametrize("accelerator", ["auto", "gpu", "aule"])
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "16-mixed"])
def test_lightning_trains(device, tmp_path, accelerator, precision):
    lightning = package("lightning")

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
            self.seen = []

        def training_step(self, batch, number):
            x, y = batch
            loss = torch.nn.functional.mse_loss(self.layers(x), y)
            self.seen.append((x.device.type, self.device.type, loss.item()))
            return loss

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-2)

    x = torch.randn(64, 8)
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True)), batch_size=16)
    model = Model()
    trainer = lightning.Trainer(
        accelerator=accelerator, devices=1, precision=precision, max_epochs=8, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=tmp_path,
    )  # fmt: skip
    trainer.fit(model, data)
    assert {seen[:2] for seen in model.seen} == {("aule", "aule")}
    losses = [loss for *_, loss in model.seen]
    assert sum(losses[-4:]) < sum(losses[:4])
    fabric = lightning.Fabric(accelerator=accelerator, devices=1, precision=precision)
    module, optimizer = fabric.setup(torch.nn.Linear(4, 2), torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1))
    assert fabric.device.type == "aule" == next(module.parameters()).device.type


def test_sentences_are_embedded_on_the_device(device, tmp_path):
    sentence_transformers = package("sentence_transformers")
    transformers = package("transformers")
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "d"]))
    tokenizer = transformers.BertTokenizerFast(str(tmp_path / "vocab.txt"))
    config = transformers.BertConfig(
        vocab_size=9, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64
    )
    folder = tmp_path / "model"
    transformers.BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    texts = ["a b c", "d d", "c a b d"]
    ours = sentence_transformers.SentenceTransformer(str(folder))
    assert ours.device.type == "aule"
    reference = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    assert reference.device.type == "cpu"
    torch.testing.assert_close(
        torch.as_tensor(ours.encode(texts)), torch.as_tensor(reference.encode(texts)), rtol=1e-4, atol=1e-4
    )


def test_yolo_predicts_on_the_device(device, tmp_path, not_strict_either, monkeypatch):
    monkeypatch.setenv("YOLO_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("YOLO_OFFLINE", "true")
    ultralytics = package("ultralytics")
    numpy = importlib.import_module("numpy")
    image = numpy.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=numpy.uint8)
    for wish in (None, "aule", "aule:0", 0):
        model = ultralytics.YOLO("yolov8n.yaml")
        (found,) = model.predict(image, imgsz=64, device=wish, verbose=False)
        assert model.predictor.device.type == "aule" == found.boxes.data.device.type
    model = ultralytics.YOLO("yolov8n.yaml")
    model.predict(image, imgsz=64, device="cpu", verbose=False)
    assert model.predictor.device.type == "cpu"


def test_their_hooks_are_applied():
    """In the versions that are installed; what is not there is pending."""
    for name in ("lightning", "sentence_transformers", "ultralytics"):
        rows = [row for row in integrations.status() if row.package == name]
        assert rows and all(row.state in ("applied", "pending") for row in rows), rows
    assert os.environ.get("TORCH_AULE_INTEGRATIONS", "") == ""
