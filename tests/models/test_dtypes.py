import pytest

from psibench.models import dtypes
from psibench.models.dtypes import choose_dtype, fast_dtype, pick_device


def choose(wanted="auto", *, n_tokens=1000, cosine=None, below=1000):
    def never(dtype):
        raise AssertionError("asked for a cosine")

    return choose_dtype(
        wanted,
        device="cpu",
        n_tokens=n_tokens,
        float32_below_tokens=below,
        cosine=never if cosine is None else lambda dtype: cosine,
    )


@pytest.fixture
def bfloat16_machine(monkeypatch):
    monkeypatch.setattr(dtypes, "fast_dtype", lambda device: "bfloat16")


@pytest.mark.parametrize("wanted", ["float32", "bfloat16", "float16"])
def test_a_named_format_is_taken_without_a_trial(bfloat16_machine, wanted):
    assert choose(wanted) == wanted


def test_small_jobs_keep_float32_without_a_trial(bfloat16_machine):
    assert choose(n_tokens=999) == "float32"


@pytest.mark.parametrize(
    ("cosine", "expected"),
    [(1.0, "bfloat16"), (0.9999, "bfloat16"), (0.99989, "float32"), (float("nan"), "float32")],
)
def test_reduced_format_needs_a_cosine_of_four_nines(bfloat16_machine, cosine, expected):
    assert choose(cosine=cosine) == expected


def test_machine_without_a_reduced_format_keeps_float32_without_a_trial(monkeypatch):
    monkeypatch.setattr(dtypes, "fast_dtype", lambda device: "float32")
    assert choose(n_tokens=10**9) == "float32"


@pytest.mark.parametrize(
    ("bf16", "amx", "expected"),
    [(True, False, "bfloat16"), (False, True, "bfloat16"), (False, False, "float32")],
)
def test_cpu_needs_instructions_for_bfloat16(monkeypatch, bf16, amx, expected):
    import torch

    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: bf16, raising=False)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx, raising=False)
    assert fast_dtype("cpu") == expected


@pytest.mark.parametrize(("bf16", "expected"), [(True, "bfloat16"), (False, "float16")])
def test_gpu_takes_bfloat16_where_it_can(monkeypatch, bf16, expected):
    import torch

    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: bf16)
    assert fast_dtype("cuda") == expected


@pytest.mark.parametrize(
    ("device", "has_gpu", "expected"),
    [("auto", True, "cuda"), ("auto", False, "cpu"), ("cpu", True, "cpu"), ("cuda", False, "cuda")],
)
def test_auto_device_is_the_gpu_where_there_is_one(monkeypatch, device, has_gpu, expected):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    assert pick_device(device) == expected
