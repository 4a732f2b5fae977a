"""The kernels of one rank and the traps around them; blocks of keys merged by their log-sum-exp."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from bodies.operator_cases import reference
from latentloom.parallel.attention import choice, local, ring

KERNEL = choice.choose(torch.device("cpu"), torch.float32)


def heads(*tokens: int, count: int = 2, width: int = 8) -> list[Tensor]:
    generator = torch.Generator().manual_seed(sum(tokens))
    return [torch.randn(2, count, each, width, generator=generator) for each in tokens]


def lse_of(q: Tensor, k: Tensor, bias: Tensor | float = 0.0) -> Tensor:
    return torch.logsumexp(q.double() @ k.double().transpose(2, 3) * q.shape[3] ** -0.5 + bias, -1)


FORMS = {
    "plain": heads(5, 7, 7),
    "a strided last dim": [x.transpose(2, 3).contiguous().transpose(2, 3) for x in heads(6, 5, 5)],
    "fewer key heads": [*heads(4, count=6), *heads(5, 5, count=2)],
}


@pytest.mark.parametrize("form", FORMS)
def test_answers_and_log_sum_exp_are_those_of_the_formula(form: str) -> None:
    q, k, v = FORMS[form]
    out, lse = local.attend_with_lse(q, k, v, mask=None, scale=None, kernel=KERNEL)
    assert (out - reference(q, k, v, None, None)).abs().max() <= 1e-5
    assert (lse - lse_of(q, k.repeat_interleave(q.shape[1] // k.shape[1], 1))).abs().max() <= 1e-5


@pytest.mark.parametrize("is_bool", [True, False])
def test_a_row_without_a_key_gives_zero_and_a_log_sum_exp_of_minus_infinity(is_bool: bool) -> None:
    q, k, v = heads(3, 4, 4)
    mask = torch.ones(1, 1, 3, 4, dtype=torch.bool)
    mask[:, :, 1] = False
    given = mask if is_bool else torch.zeros(1, 1, 3, 4).masked_fill(~mask, -torch.inf)
    out, lse = local.attend_with_lse(q, k, v, mask=given, scale=None, kernel=KERNEL)
    assert (out[:, :, 1] == 0).all() and (lse[:, :, 1] == -torch.inf).all()
    assert lse[:, :, [0, 2]].isfinite().all() and (out - reference(q, k, v, mask, None)).abs().max() <= 1e-5


@pytest.mark.parametrize(("queries", "keys", "count"), [(0, 3, 2), (3, 0, 2), (0, 0, 2), (3, 3, 0)])
def test_nothing_to_attend_to_never_reaches_a_kernel(queries: int, keys: int, count: int) -> None:
    q, k, v = (torch.randn(1, count, tokens, 8) for tokens in (queries, keys, keys))
    out, lse = local.attend_with_lse(q, k, v, mask=None, scale=None, kernel=KERNEL)
    plain = local.attend_plain(q, k, v, mask=None, scale=None, kernel=KERNEL)
    assert out.shape == plain.shape == q.shape and not out.any() and not plain.any()
    assert (lse == -torch.inf).all() and lse.shape == q.shape[:3]


def blocks(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, *ends: int, at_once: int = 2) -> Tensor:
    """Attention to blocks of keys that end there, merged one by one or all together."""
    parts, start = [], 0
    if mask is not None:
        q, mask = ring._merging_safely(q, mask)
    for end in ends:
        bias = None if mask is None else mask[..., start:end]
        part = ring.attend_to_block(q, k[:, :, start:end], v[:, :, start:end], mask=bias, scale=None, kernel=KERNEL)
        parts, start = [ring.merge([*parts, part])] if at_once == 2 else [*parts, part], end
    return ring.merge(parts)[0]


def test_merged_blocks_are_attention_to_all_be_some_of_them_empty_or_masked() -> None:
    q, k, v = heads(5, 9, 9)
    mask = torch.rand(2, 1, 5, 9, generator=torch.Generator().manual_seed(0)) < 0.5
    mask[:, :, :, 2:4] = False
    mask[:, :, 3] = False
    for at_once in (2, 4):
        got = blocks(q, k, v, mask, 2, 2, 4, 9, at_once=at_once)
        assert (got - reference(q, k, v, mask, None)).abs().max() <= 1e-5 and not got[:, :, 3].any()


def test_answers_in_half_precision_are_merged_in_fp32() -> None:
    given = [(out.bfloat16(), torch.zeros(2, 2, 5)) for out in heads(5, 5, 5)]
    wanted, _ = ring.merge([(out.float(), lse) for out, lse in given])
    merged, lse = ring.merge(given)
    assert merged.dtype == lse.dtype == torch.float32 and (merged - wanted).abs().max() <= 1e-6


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("is_masked", [False, True])
def test_blocks_in_half_precision_are_merged_as_near_to_fp64_as_one_kernel_answers(
    dtype: torch.dtype, is_masked: bool
) -> None:
    q, k, v = (x.to(dtype) for x in heads(64, 96, 96, width=32))
    mask = torch.rand(2, 1, 64, 96, generator=torch.Generator().manual_seed(0)) < 0.9 if is_masked else None
    wanted = reference(q, k, v, mask, None)
    whole = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    for at_once in (2, 4):
        merged = blocks(q, k, v, mask, 48, 80, 96, at_once=at_once).to(dtype)
        assert (merged - wanted).norm() <= 1.02 * (whole - wanted).norm()


def test_attending_to_nothing_twice_is_nothing() -> None:
    nothing = torch.zeros(1, 1, 2, 4), torch.full((1, 1, 2), ring.NOTHING)
    out, lse = ring.merge([nothing, nothing])
    assert not out.any() and (lse == ring.NOTHING).all()


@pytest.mark.parametrize("low", [-1e9, -1e20, torch.finfo(torch.float32).min])
def test_rows_masked_by_a_huge_number_are_uniform_over_uneven_blocks_as_on_one_process(low: float) -> None:
    q, k, v = heads(4, 9, 9)
    mask = torch.full((1, 1, 4, 9), low)
    mask[:, :, 0] = 0
    whole = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    assert (blocks(q, k, v, mask, 2, 3, 9) - whole).abs().max() <= 1e-5


def test_rows_masked_by_a_low_number_keep_their_scores() -> None:
    q, k, v = heads(4, 9, 9)
    mask = torch.full((1, 1, 4, 9), -1e4)
    assert (blocks(q, k, v, mask, 2, 3, 9) - reference(q, k, v, mask, None)).abs().max() <= 1e-5
