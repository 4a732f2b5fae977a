"""ComfyUI's classes of the Wan family beside Wan, small, with random weights; for `comfyui_models.py`."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from comfyui_made import Made, made_of, noise

SIZE = (3, 9, 13)  # frames, rows and columns of latents


def small(heads: int = 3, **more: Any) -> dict[str, Any]:
    return {
        **{"patch_size": (1, 2, 2), "in_dim": 16, "dim": heads * 24, "ffn_dim": 96, "freq_dim": 32, "text_dim": 48},
        **{"out_dim": 16, "num_heads": heads, "num_layers": 3},
        **more,
    }


def asked(*, batch: int = 1, text: int = 9, channels: int = 16, size: tuple[int, ...] = SIZE) -> dict[str, Any]:
    call = {"x": noise(batch, channels, *size), "timestep": torch.full((batch,), 700.0)}
    return call | {"context": noise(batch, text, 48)}


def vace(*, controls: int = 1, batch: int = 1, text: int = 9, heads: int = 3) -> Made:
    from comfy.ldm.wan.model import VaceWanModel

    call = asked(batch=batch, text=text, size=(3, 10, 14))
    call |= {"vace_context": noise(batch, controls, 96, 3, 10, 14), "vace_strength": [0.9, 0.4][:controls]}
    return made_of(VaceWanModel, **small(heads, vace_layers=2, vace_in_dim=96, num_layers=4)), call


def camera(*, kind: str = "camera", batch: int = 1, has_poses: bool = True) -> Made:
    from comfy.ldm.wan.model import CameraWanModel

    call = asked(batch=batch, size=(3, 10, 14))
    if kind == "camera":
        call["clip_fea"] = noise(batch, 5, 1280)
    if has_poses:
        call["camera_conditions"] = noise(batch, 24, 3, 80, 112)
    return made_of(CameraWanModel, **small(model_type=kind)), call


def scail(
    *, batch: int = 1, text: int = 9, references: int = 1, times: tuple[float, ...] = (), has_poses: bool = True
) -> Made:
    from comfy.ldm.wan.model import SCAILWanModel

    call = asked(batch=batch, text=text, channels=20)
    call |= {"reference_latent": noise(batch, 20, references, *SIZE[1:]), "clip_fea": noise(batch, 5, 1280)}
    if has_poses:
        call["pose_latents"] = noise(batch, 20, 3, 5, 7)  # of half the size
    if times:
        call["timestep"] = torch.tensor([times])
    return made_of(SCAILWanModel, **small(in_dim=20)), call


def scail_2(*, references: int = 1, is_replaced: bool = False) -> Made:
    from comfy.ldm.wan.model import SCAIL2WanModel

    call = asked(channels=20)
    call |= {"reference_latent": noise(1, 20, references, *SIZE[1:]), "clip_fea": noise(1, 5, 1280)}
    call |= {"pose_latents": noise(1, 20, 3, 5, 7), "sam_latents": noise(1, 28, 3, 5, 7)}
    call |= {"ref_mask_latents": noise(1, 28, 3 + references, *SIZE[1:]), "ref_mask_flag": not is_replaced}
    return made_of(SCAIL2WanModel, **small(in_dim=20)), call


def animate(*, batch: int = 1, text: int = 9, times: tuple[float, ...] = (), faces: int = 5) -> Made:
    from comfy.ldm.wan.model_animate import AnimateWanModel

    call = asked(batch=batch, text=text, size=(3, 10, 14))
    call |= {"clip_fea": noise(batch, 5, 1280), "pose_latents": noise(batch, 16, 2, 10, 14)}
    if faces:
        call["face_pixel_values"] = noise(batch, 3, faces, 512, 512)
    if times:
        call["timestep"] = torch.tensor([times])
    model: Any = made_of(AnimateWanModel, **small(num_layers=10))  # a face behind two of them
    if faces > 1:  # its own look at a face takes seconds on a CPU
        model.motion_encoder.get_motion = lambda pixels: pixels[:, 0, ::64, :64].flatten(1)
    return model, call


def s2v(
    *, batch: int = 1, text: int = 9, has_audio: bool = True, has_more: bool = False, times: tuple[float, ...] = ()
) -> Made:
    from comfy.ldm.wan.model import WanModel_S2V

    call = asked(batch=batch, text=text, size=(3, 10, 14))
    if has_audio:
        call["audio_embed"] = noise(batch, 25, 32, 12)
    if has_more:
        call |= {"reference_latent": noise(batch, 16, 1, 10, 14), "control_video": noise(batch, 16, 3, 10, 14)}
        call["reference_motion"] = noise(batch, 16, 19, 10, 14)
    if times:
        call["timestep"] = torch.tensor([times])
    return made_of(WanModel_S2V, **small(audio_dim=32, audio_inject_layers=[0, 2])), call


def humo(*, batch: int = 1, text: int = 9, has_audio: bool = True, has_reference: bool = False) -> Made:
    from comfy.ldm.wan.model import HumoWanModel

    call = asked(batch=batch, text=text, size=(3, 10, 14))
    if has_audio:
        call["audio_embed"] = noise(batch, 3, 8, 5, 1280)
    if has_reference:
        call["reference_latent"] = noise(batch, 16, 1, 10, 14)
    return made_of(HumoWanModel, **small()), call


def animate_2(*, batch: int = 1, text: int = 9, times: tuple[float, ...] = (), has_pose: bool = True) -> Made:
    from comfy.ldm.wan.model_animate2 import WanAnimate2Model

    call = asked(batch=batch, text=text, channels=36, size=(4, 9, 13))  # of a reference, and three of the video
    call |= {"clip_fea": noise(batch, 5, 1280), "reference_strength": 0.8}
    if has_pose:
        call |= {"pose_latents": noise(batch, 16, 3, 9, 13), "clip_fea_pose": noise(batch, 5, 1280) / 2}
        call |= {"context_pose": noise(batch, 4, 48), "pose_strength": 0.9}
    if times:
        call["timestep"] = torch.tensor([times])
    return made_of(WanAnimate2Model, **small(in_dim=36)), call


def dancer(*, batch: int = 1, frames: int = 3, has_music: bool = True, fps: float = 30.0) -> Made:
    from comfy.ldm.wan.model_wandancer import WanDancerModel

    call = asked(batch=batch, size=(frames, 6, 16))  # in eighths of a frame of as many tokens
    call |= {"clip_fea": noise(batch, 5, 1280), "clip_fea_ref": noise(batch, 5, 1280), "fps": fps}
    if has_music:
        call |= {"audio_embed": noise(batch, 11, 35), "audio_inject_scale": 0.8}
    more = {"audio_inject_layers": [0, 2], "music_dim": 64, "music_heads": 2, "music_latent_dim": 64}
    return made_of(WanDancerModel, **small(**more)), call


CASES: dict[str, Callable[[], Made]] = {
    "wan vace": vace,
    "wan vace, two controls, batch 2": partial(vace, controls=2, batch=2, heads=4),
    "wan vace, 1 text token": partial(vace, text=1),
    "wan camera": camera,
    "wan camera 2.2, batch 2": partial(camera, kind="camera_2.2", batch=2),
    "wan camera, no poses": partial(camera, has_poses=False),
    "wan animate": animate,
    "wan animate, batch 2, 1 text": partial(animate, batch=2, text=1),
    "wan animate, a time per frame": partial(animate, times=(0.0, 700.0, 700.0)),
    "wan animate, no face": partial(animate, faces=0),
    "wan animate, its own look": partial(animate, faces=1),
    "wan animate 2": animate_2,
    "wan animate 2, batch 2, 1 text": partial(animate_2, batch=2, text=1),
    "wan animate 2, times of frames": partial(animate_2, times=(0.0, 700.0, 700.0, 700.0)),
    "wan animate 2, no pose": partial(animate_2, has_pose=False),
    "wan s2v": s2v,
    "wan s2v, all, batch 2": partial(s2v, batch=2, has_more=True),
    "wan s2v, all, times": partial(s2v, has_more=True, times=(0.0, 700.0, 700.0)),
    "wan s2v, no sound, 1 text": partial(s2v, text=1, has_audio=False),
    "wan humo": humo,
    "wan humo, a reference, batch 2": partial(humo, batch=2, has_reference=True),
    "wan humo, no sound, 1 text": partial(humo, text=1, has_audio=False),
    "wan dancer": dancer,
    "wan dancer, 12 frames, batch 2": partial(dancer, batch=2, frames=2, fps=12.0),
    "wan dancer, no music": partial(dancer, has_music=False),
    "wan scail": scail,
    "wan scail, batch 2, 1 text": partial(scail, batch=2, text=1),
    "wan scail, a time per frame": partial(scail, times=(0.0, 700.0, 700.0), has_poses=False),
    "wan scail 2": scail_2,
    "wan scail 2, replaced": partial(scail_2, references=2, is_replaced=True),
}
