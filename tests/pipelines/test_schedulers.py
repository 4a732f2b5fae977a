"""Noise levels are the model's unless the user gives them, and every solver goes through them."""

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import (
    DDIMScheduler,
    DPMSolverMultistepScheduler,
    FlowMatchEulerDiscreteScheduler,
    FlowMatchHeunDiscreteScheduler,
    MiniMaxH3Scheduler,
    UniPCMultistepScheduler,
)

from latentloom.pipelines.denoising.schedulers import SOLVERS, choose, choose_beside
from latentloom.pipelines.values import Sampling

EULER = FlowMatchEulerDiscreteScheduler(shift=3.0)
DYNAMIC = FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True)
UNIPC = UniPCMultistepScheduler(prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=3.0)
OWN = {"euler": EULER, "unipc": UNIPC}
SOLVER = pytest.mark.parametrize("solver", SOLVERS)


@pytest.mark.parametrize("own", OWN)
@pytest.mark.parametrize("named", [False, True])
def test_the_models_own_scheduler_stays_as_it_is_but_new(own: str, named: bool) -> None:
    chosen = choose(OWN[own], Sampling(scheduler=own if named else "model"))  # type: ignore[arg-type]
    assert type(chosen) is type(OWN[own]) and chosen is not OWN[own]
    assert dict(chosen.config) == dict(OWN[own].config)
    lists = {name: each for name, each in vars(OWN[own]).items() if isinstance(each, list)}
    assert all(vars(chosen)[name] is not each for name, each in lists.items())


@SOLVER
@pytest.mark.parametrize("own", OWN)
def test_every_solver_goes_through_the_models_levels(solver: str, own: str) -> None:
    chosen, plain = (choose(OWN[own], Sampling(scheduler=name)) for name in (solver, "model"))  # type: ignore[arg-type]
    chosen.set_timesteps(5)
    plain.set_timesteps(5)
    levels = torch.unique_consecutive(chosen.sigmas)
    torch.testing.assert_close(levels, plain.sigmas.float(), atol=2e-6, rtol=0)
    assert len(chosen.timesteps) == (9 if solver == "heun" else 5)


@SOLVER
def test_levels_that_depend_on_the_size_reach_the_solver(solver: str) -> None:
    chosen, plain = (choose(DYNAMIC, Sampling(scheduler=name)) for name in (solver, "model"))  # type: ignore[arg-type]
    for scheduler in (chosen, plain):
        scheduler.set_timesteps(sigmas=[1.0, 0.7, 0.3], mu=0.9)
    assert chosen.config.use_dynamic_shifting
    torch.testing.assert_close(torch.unique_consecutive(chosen.sigmas), plain.sigmas, atol=2e-6, rtol=0)


@pytest.mark.parametrize("own, expected", [(EULER, 5.0), (DYNAMIC, 5.0), (UNIPC, 5.0)])
def test_a_given_shift_replaces_the_models(own: Any, expected: float) -> None:
    chosen = choose(own, Sampling(shift=5.0))
    chosen.set_timesteps(sigmas=np.array([1.0, 0.5]))
    assert chosen.sigmas[1].item() == pytest.approx(expected * 0.5 / (1 + (expected - 1) * 0.5))


@SOLVER
@pytest.mark.parametrize("own", [EULER, DYNAMIC, UNIPC])
def test_given_sigmas_are_taken_as_they_are(solver: str, own: Any) -> None:
    chosen = choose(own, Sampling(scheduler=solver, sigmas=(0.9, 0.6, 0.2)))  # type: ignore[arg-type]
    chosen.set_timesteps(num_inference_steps=3)
    levels = torch.unique_consecutive(chosen.sigmas)
    torch.testing.assert_close(levels, torch.tensor([0.9, 0.6, 0.2, 0.0]))
    torch.testing.assert_close(torch.unique_consecutive(chosen.timesteps), 1000 * levels[:-1])


@SOLVER
@pytest.mark.parametrize("own", [EULER, DYNAMIC, UNIPC])
def test_sigmas_that_are_shifted_are_those_that_diffusers_makes_of_them(solver: Any, own: Any) -> None:
    given = (1.0, 0.6, 0.2)
    chosen = choose(own, Sampling(scheduler=solver, sigmas=given, shift_sigmas=True))
    plain = copy.deepcopy(own)
    plain.set_timesteps(sigmas=np.array(given), mu=0.9)
    chosen.set_timesteps(5, mu=0.9)
    torch.testing.assert_close(torch.unique_consecutive(chosen.sigmas), plain.sigmas.float(), atol=2e-6, rtol=0)


def test_a_sound_walks_beside_its_picture_by_a_shift_of_its_own() -> None:
    picture, sound = MiniMaxH3Scheduler(shift=12.0), MiniMaxH3Scheduler(shift=3.0)
    base = tuple(torch.linspace(1, 0, 5)[:-1].tolist())
    for each in (picture, sound):
        each.set_timesteps(5)
    bent, as_they_are = Sampling(sigmas=base, shift_sigmas=True), Sampling(sigmas=tuple(picture.sigmas[:-1].tolist()))
    for sampling, far in ((bent, 0.0), (as_they_are, 1e-6)):
        chosen = choose(picture, sampling)
        beside = choose_beside(sound, sampling, chosen)
        for mine, own in ((chosen, picture), (beside, sound)):
            mine.set_timesteps(num_inference_steps=50)
            torch.testing.assert_close(mine.sigmas, own.sigmas, atol=far, rtol=0)
    assert torch.equal(chosen.sigmas, picture.sigmas)


def error(solver: str, steps: int) -> float:
    """Of a flow whose end is known: from noise to pictures that are normally distributed (mean 2, deviation 0.3)."""
    scheduler = choose(FlowMatchEulerDiscreteScheduler(shift=1.0), Sampling(scheduler=solver))  # type: ignore[arg-type]
    scheduler.set_timesteps(steps)
    scheduler.set_begin_index(0)
    noise = torch.linspace(-2, 2, 9, dtype=torch.float32)[None]
    sample = noise.clone()
    for t in scheduler.timesteps:
        sigma = t.item() / 1000
        spread = sigma**2 + (1 - sigma) ** 2 * 0.09
        picture = 2 + (1 - sigma) * 0.09 / spread * (sample - (1 - sigma) * 2)
        sample = scheduler.step((sample - picture) / sigma, t, sample, return_dict=False)[0]
    return (sample - (2 + 0.3 * noise)).abs().max().item()


@SOLVER
def test_solvers_come_nearer_with_more_steps(solver: str) -> None:
    assert error(solver, 64) < error(solver, 16) / 2 < 0.1


@pytest.mark.parametrize("solver", ["heun", "unipc", "dpm++2m"])
def test_second_order_solvers_beat_euler(solver: str) -> None:
    assert error(solver, 128) < error("euler", 128) / 3


def walk(scheduler: Any) -> torch.Tensor:
    sample = torch.full((1, 2), 0.5)
    for t in scheduler.timesteps:
        sample = scheduler.step(torch.sin(sample), t, sample, return_dict=False)[0]
    return sample


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of the stock DPM solver
@pytest.mark.parametrize(
    "solver, kind",
    [
        ("euler", FlowMatchEulerDiscreteScheduler()),
        ("heun", FlowMatchHeunDiscreteScheduler(shift=2.0)),
        ("unipc", UNIPC),
        ("dpm++2m", DPMSolverMultistepScheduler(prediction_type="flow_prediction", use_flow_sigmas=True)),
    ],
)
def test_on_the_same_levels_a_solver_is_the_stock_one(solver: str, kind: Any) -> None:
    kind.set_timesteps(6)
    levels = tuple(torch.unique_consecutive(kind.sigmas)[:-1].tolist())
    chosen = choose(EULER, Sampling(scheduler=solver, sigmas=levels))  # type: ignore[arg-type]
    chosen.set_timesteps(6)
    assert torch.equal(walk(chosen), walk(kind))


@SOLVER
def test_a_solver_can_be_used_again(solver: str) -> None:
    scheduler = choose(EULER, Sampling(scheduler=solver))  # type: ignore[arg-type]
    runs = []
    for _ in range(2):
        scheduler.set_timesteps(4)
        runs.append(walk(scheduler))
    assert torch.equal(*runs)


@SOLVER
def test_noise_is_mixed_in_at_the_level_of_the_first_step(solver: str) -> None:
    scheduler = choose(EULER, Sampling(scheduler=solver, sigmas=(1.0, 0.5, 0.25)))  # type: ignore[arg-type]
    scheduler.set_timesteps(3)
    scheduler.set_begin_index(scheduler.order)
    mixed = scheduler.scale_noise(torch.full((2, 3), 4.0), scheduler.timesteps[:1], torch.zeros(2, 3))
    torch.testing.assert_close(mixed, torch.full((2, 3), 2.0))


def test_schedulers_that_draw_noise_are_refused_by_name_unless_a_solver_is_chosen() -> None:
    stochastic = FlowMatchEulerDiscreteScheduler(stochastic_sampling=True)
    with pytest.raises(ValueError, match="FlowMatchEulerDiscreteScheduler with stochastic_sampling, draws noise"):
        choose(stochastic, Sampling())
    choose(stochastic, Sampling(scheduler="euler")).set_timesteps(3)


def test_schedulers_that_are_no_flow_are_refused_by_name() -> None:
    for scheduler in (DDIMScheduler(), UniPCMultistepScheduler()):
        with pytest.raises(ValueError, match=f"{type(scheduler).__name__}, is not supported"):
            choose(scheduler, Sampling())


@pytest.mark.parametrize(
    "sampling, sentence",
    [
        (Sampling(sigmas=(0.5, 0.7)), "sigmas 0.5, 0.7: give numbers that fall"),
        (Sampling(sigmas=(1.0, 1.0)), "give numbers that fall"),
        (Sampling(sigmas=(1.5, 0.5)), "from at most 1"),
        (Sampling(sigmas=(1.0, 0.0)), "stay above 0"),
        (Sampling(sigmas=(1.0, math.nan)), "give numbers that fall"),
        (Sampling(sigmas=(1.0, 0.5), shift=2.0), "leave shift at 0"),
        (Sampling(shift_sigmas=True), "shift_sigmas is on, but there are no sigmas"),
        (Sampling(shift=math.nan), "shift nan"),
        (Sampling(shift=-1.0), "shift -1"),
        (Sampling(scheduler="heunn"), "did you mean heun"),  # type: ignore[arg-type]
        (Sampling(scheduler="zzz"), r"it is one of model, euler, heun, unipc, dpm\+\+2m"),  # type: ignore[arg-type]
    ],
)
def test_bad_options_are_refused(sampling: Sampling, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        choose(EULER, sampling)
