# `make demo` and `make test` do everything from a clean clone; the rest is for development.
PY := .venv/bin/python
# Strict: an operator without a kernel of ours is an error, never a silent trip to the CPU.
STRICT := TORCH_AULE_STRICT=1 TORCH_DEVICE_BACKEND_AUTOLOAD=0

.PHONY: demo test smoke build lint clean

demo:
	tools/setup_env.sh demo
	$(STRICT) $(PY) -m torch_aule.examples.gpt

test:
	$(or $(PYTHON),python3) tools/run_tests.py

# A minute's worth of tests, for the edit-build-test cycle.
smoke: build
	$(STRICT) $(PY) -m pytest -q -x -n 2 -m smoke

build:
	$(PY) setup.py -q build_ext --inplace

lint:
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(PY) -m pytest -q test/rules/test_layers.py test/rules/test_docs.py

clean:
	rm -rf build dist torch_aule/_C* torch_aule/kernels.bin build-log.txt
