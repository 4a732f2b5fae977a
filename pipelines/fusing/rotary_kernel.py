"""The kernel behind `rotary`, in Triton: what a GPU does to one token of q or k in one launch for all of them."""

# ruff: noqa: ANN001 (its arguments are addresses and numbers, of which Triton knows the format when it is called)

import triton
import triton.language as tl


@triton.jit
def turn(
    q_text,
    q_image,
    k_text,
    k_image,
    cos,
    sin,
    q_out,
    k_out,
    num_text,
    num_tokens,
    width,
    head_width,
    BLOCK: tl.constexpr,
) -> None:
    """Program (row, 0) turns a token of q, (row, 1) one of k: `width` numbers, heads side by side, in pairs."""
    row = tl.program_id(0)
    item, token = row // num_tokens, row % num_tokens
    if tl.program_id(1) == 0:
        text, image, out = q_text, q_image, q_out
    else:
        text, image, out = k_text, k_image, k_out
    if token < num_text:
        start = text + (item * num_text + token) * width
    else:
        start = image + (item * (num_tokens - num_text) + token - num_text) * width
    at = tl.arange(0, BLOCK)
    is_there = at < width
    x = tl.load(start + at, mask=is_there).to(tl.float32)
    other = tl.load(start + (at ^ 1), mask=is_there).to(tl.float32)  # of its pair
    other = tl.where(at % 2 == 0, -other, other)
    angle = token * head_width + at % head_width
    turned = x * tl.load(cos + angle, mask=is_there) + other * tl.load(sin + angle, mask=is_there)
    tl.store(out + row * width + at, turned.to(out.dtype.element_ty), mask=is_there)
