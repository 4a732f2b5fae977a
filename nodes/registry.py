"""Every node there is. To add a node, add a line; an id is a promise to saved workflows and is never renamed."""

from __future__ import annotations

import dataclasses

from .graph.spec import NodeSpec, read_spec
from .hosts.comfyui import comfy_title, node_class
from .steps.arguments import sketch_by
from .steps.audio import (
    audio_file_refusals,
    audio_fingerprint,
    audio_name_refusals,
    load_audio,
    save_audio,
    sounds_written,
)
from .steps.canvas import (
    empty_latents,
    empty_means,
    empty_refusals,
    empty_sketch,
    upscale_latents,
    upscale_refusals,
    upscale_sketch,
)
from .steps.decoding import (
    audio_refusals,
    decode,
    decode_audio,
    decode_video,
    decoded_sketch,
    frames_sketch,
    image_refusals,
    video_frames,
    video_refusals,
)
from .steps.denoising import denoise, denoise_means, denoise_sketch, denoises, noise_recipe, sampler_options
from .steps.encoding import (
    encode_image,
    encode_text,
    image_means,
    image_sketch,
    picture_refusals,
    reference_pictures,
    references_sketch,
    text_means,
    text_reads,
    text_refusals,
    text_sketch,
)
from .steps.masks import blur_mask, crop_image, crop_sketch, load_mask, outpaint, paste_image, paste_sketch
from .steps.models import (
    load_lora,
    load_model,
    lora_fingerprint,
    lora_refusals,
    lora_sketch,
    model_fingerprint,
    model_means,
    model_migration,
    model_recipe,
    model_refusals,
    model_sketch,
)
from .steps.pictures import (
    image_fingerprint,
    image_grid,
    load_image,
    one_sketch,
    picture_file_refusals,
    picture_name_refusals,
    pictures_written,
    resize_image,
    resize_sketch,
    save_image,
)
from .steps.planning import parallel_plan, plan_fingerprint, plan_means, plan_refusals, plan_sketch
from .steps.small.measures import (
    batch_pictures,
    batch_sketch,
    compare_pictures,
    compare_sketch,
    picture_size,
    picture_size_sketch,
    size_from_ratio,
)
from .steps.small.numbers import boolean, calculate, decimal, integer
from .steps.small.switching import switch_spec
from .steps.small.texts import change_case, format_text, replace_text, split_text
from .steps.small.varying import vary_fingerprint, vary_refusals, vary_sketch, vary_text
from .steps.text import choose_text, join_text, layout_prompt, note, seed
from .steps.videos import (
    clip_sketch,
    load_video,
    save_video,
    video_file_refusals,
    video_fingerprint,
    video_name_refusals,
    videos_written,
)
from .steps.whole.node import base_spec

NODE_CLASS_MAPPINGS = {
    "LoomLoadModel": node_class(
        read_spec(
            load_model,
            title="Load Model",
            category="model",
            version=2,
            is_kept=False,
            fingerprint=model_fingerprint,
            migrate=model_migration,
            recipe=model_recipe,
            sketch=model_sketch,
            refuses=model_refusals,
            means=model_means,
        )
    ),
    "LoomLoadLora": node_class(
        read_spec(
            load_lora,
            title="Load LoRA",
            category="model",
            is_kept=False,
            fingerprint=lora_fingerprint,
            sketch=lora_sketch,
            refuses=lora_refusals,
        )
    ),
    "LoomParallelPlan": node_class(
        read_spec(
            parallel_plan,
            title="Parallel Plan",
            category="model",
            is_kept=False,
            fingerprint=plan_fingerprint,
            sketch=plan_sketch,
            refuses=plan_refusals,
            means=plan_means,
        )
    ),
    "LoomRunPipeline": node_class(base_spec()),
    "LoomEncodeText": node_class(
        read_spec(
            encode_text,
            title="Encode Text",
            category="encode",
            uses_device=True,
            sketch=text_sketch,
            refuses=text_refusals,
            means=text_means,
            reads=text_reads,
        )
    ),
    "LoomReferencePictures": node_class(
        read_spec(reference_pictures, title="Reference Pictures", category="encode", sketch=references_sketch)
    ),
    "LoomEncodeImage": node_class(
        read_spec(
            encode_image,
            title="Encode Image",
            category="encode",
            uses_device=True,
            recipe=noise_recipe,
            sketch=image_sketch,
            refuses=picture_refusals,
            means=image_means,
        )
    ),
    "LoomEmptyLatents": node_class(
        read_spec(
            empty_latents,
            title="Empty Latents",
            category="latents",
            sketch=empty_sketch,
            refuses=empty_refusals,
            means=empty_means,
        )
    ),
    "LoomUpscaleLatents": node_class(
        read_spec(
            upscale_latents,
            title="Upscale Latents",
            category="latents",
            sketch=upscale_sketch,
            refuses=upscale_refusals,
        )
    ),
    "LoomDenoise": node_class(
        read_spec(
            denoise,
            title="Denoise",
            category="denoise",
            uses_device=True,
            recipe=noise_recipe,
            sketch=denoise_sketch,
            denoises=denoises,
            means=denoise_means,
        )
    ),
    "LoomSamplerOptions": node_class(
        read_spec(sampler_options, title="Sampler Options", category="denoise", sketch=sketch_by(sampler_options))
    ),
    "LoomDecode": node_class(
        read_spec(
            decode, title="Decode", category="decode", uses_device=True, sketch=decoded_sketch, refuses=image_refusals
        )
    ),
    "LoomDecodeVideo": node_class(
        read_spec(
            decode_video,
            title="Decode Video",
            category="decode",
            uses_device=True,
            sketch=decoded_sketch,
            refuses=video_refusals,
        )
    ),
    "LoomDecodeAudio": node_class(
        read_spec(
            decode_audio,
            title="Decode Audio",
            category="decode",
            uses_device=True,
            sketch=decoded_sketch,
            refuses=audio_refusals,
        )
    ),
    "LoomVideoFrames": node_class(
        read_spec(video_frames, title="Video Frames", category="picture", sketch=frames_sketch)
    ),
    "LoomLoadImage": node_class(
        read_spec(
            load_image,
            title="Load Image",
            category="picture",
            fingerprint=image_fingerprint,
            sketch=one_sketch,
            refuses=picture_file_refusals,
        )
    ),
    "LoomSaveImage": node_class(
        read_spec(
            save_image,
            title="Save Image",
            category="picture",
            is_output=True,
            refuses=picture_name_refusals,
            writes=pictures_written,
        )
    ),
    "LoomResizeImage": node_class(
        read_spec(resize_image, title="Resize Image", category="picture", sketch=resize_sketch)
    ),
    "LoomImageGrid": node_class(read_spec(image_grid, title="Image Grid", category="picture", sketch=one_sketch)),
    "LoomBatchPictures": node_class(
        read_spec(batch_pictures, title="Batch Pictures", category="picture", sketch=batch_sketch)
    ),
    "LoomPictureSize": node_class(
        read_spec(picture_size, title="Picture Size", category="picture", sketch=picture_size_sketch)
    ),
    "LoomComparePictures": node_class(
        read_spec(compare_pictures, title="Compare Pictures", category="picture", sketch=compare_sketch)
    ),
    "LoomLoadMask": node_class(
        read_spec(
            load_mask, title="Load Mask", category="mask", fingerprint=image_fingerprint, refuses=picture_file_refusals
        )
    ),
    "LoomBlurMask": node_class(read_spec(blur_mask, title="Grow and Blur Mask", category="mask")),
    "LoomOutpaint": node_class(read_spec(outpaint, title="Outpaint", category="mask")),
    "LoomCropImage": node_class(read_spec(crop_image, title="Crop Image", category="mask", sketch=crop_sketch)),
    "LoomPasteImage": node_class(read_spec(paste_image, title="Paste Image", category="mask", sketch=paste_sketch)),
    "LoomLoadVideo": node_class(
        read_spec(
            load_video,
            title="Load Video",
            category="picture",
            fingerprint=video_fingerprint,
            sketch=clip_sketch,
            refuses=video_file_refusals,
        )
    ),
    "LoomSaveVideo": node_class(
        read_spec(
            save_video,
            title="Save Video",
            category="picture",
            is_output=True,
            refuses=video_name_refusals,
            writes=videos_written,
        )
    ),
    "LoomLoadAudio": node_class(
        read_spec(
            load_audio,
            title="Load Audio",
            category="sound",
            fingerprint=audio_fingerprint,
            sketch=one_sketch,
            refuses=audio_file_refusals,
        )
    ),
    "LoomSaveAudio": node_class(
        read_spec(
            save_audio,
            title="Save Audio",
            category="sound",
            is_output=True,
            refuses=audio_name_refusals,
            writes=sounds_written,
        )
    ),
    "LoomJoinText": node_class(read_spec(join_text, title="Join Text", category="text", sketch=sketch_by(join_text))),
    "LoomChooseText": node_class(
        read_spec(choose_text, title="Choose Text", category="text", sketch=sketch_by(choose_text))
    ),
    "LoomVaryText": node_class(
        read_spec(
            vary_text,
            title="Vary Text",
            category="text",
            fingerprint=vary_fingerprint,
            sketch=vary_sketch,
            refuses=vary_refusals,
        )
    ),
    "LoomLayoutPrompt": node_class(
        read_spec(layout_prompt, title="Layout Prompt", category="text", sketch=sketch_by(layout_prompt))
    ),
    "LoomSeed": node_class(read_spec(seed, title="Seed", category="text", sketch=sketch_by(seed))),
    "LoomReplaceText": node_class(
        read_spec(replace_text, title="Replace Text", category="text", sketch=sketch_by(replace_text))
    ),
    "LoomSplitText": node_class(
        read_spec(split_text, title="Split Text", category="text", sketch=sketch_by(split_text))
    ),
    "LoomFormatText": node_class(
        read_spec(format_text, title="Format Text", category="text", sketch=sketch_by(format_text))
    ),
    "LoomChangeCase": node_class(
        read_spec(change_case, title="Change Case", category="text", sketch=sketch_by(change_case))
    ),
    "LoomInteger": node_class(read_spec(integer, title="Integer", category="number", sketch=sketch_by(integer))),
    "LoomFloat": node_class(read_spec(decimal, title="Float", category="number", sketch=sketch_by(decimal))),
    "LoomBoolean": node_class(read_spec(boolean, title="Boolean", category="number", sketch=sketch_by(boolean))),
    "LoomCalculate": node_class(
        read_spec(calculate, title="Calculate", category="number", sketch=sketch_by(calculate))
    ),
    "LoomSizeFromRatio": node_class(
        read_spec(size_from_ratio, title="Size from Ratio", category="number", sketch=sketch_by(size_from_ratio))
    ),
    "LoomSwitch": node_class(switch_spec()),
    "LoomNote": node_class(read_spec(note, title="Note", category="text")),
}

for _id, _node in NODE_CLASS_MAPPINGS.items():
    _node.SPEC = dataclasses.replace(_node.SPEC, id=_id)

SPECS: dict[str, NodeSpec] = {id: node.SPEC for id, node in NODE_CLASS_MAPPINGS.items()}
NODE_DISPLAY_NAME_MAPPINGS = {id: comfy_title(spec) for id, spec in SPECS.items()}
