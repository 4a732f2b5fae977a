"""Make NCCL small enough to travel: `python tests/bench/gpu/nccl.py WHEEL OUT --capability 90` writes OUT, an .xz file.

From 2.30 on ranks may share a GPU (`NCCL_MULTI_RANK_GPU_ENABLE=1`), so that one card shows what several would do; torch
brings an older one, before which this is loaded (`LD_PRELOAD`). The library of the package nvidia-nccl-cu13 takes 240
MB, most of it kernels for other GPUs and device code to be linked elsewhere, which is zeroed and so packed away.
"""

import argparse
import lzma
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from pathlib import Path

LIBRARY = "nvidia/nccl/lib/libnccl.so.2"
# Sections of the library: kernels for every GPU, and the device code for programs that bring kernels of their own.
KERNELS, LINKED_ELSEWHERE = ".nv_fatbin", "__nv_relfatbin"
# Begins each bundle of kernels; its header tells its own length and that of the entries, one for each GPU.
MAGIC = 0xBA55ED50


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--capability", type=int, default=90, help="of the GPU whose kernels are kept, such as 90")
    asked = parser.parse_args()
    with zipfile.ZipFile(asked.wheel) as wheel:
        library = bytearray(wheel.read(LIBRARY))
    places = sections(library)
    kept = keep_only(library, *places[KERNELS], capability=asked.capability)
    if not kept[asked.capability]:
        print(f"no kernels for {asked.capability}; there are some for {sorted(kept)}", file=sys.stderr)
        return 1
    start, size = places.get(LINKED_ELSEWHERE, (0, 0))
    library[start : start + size] = bytes(size)
    asked.out.write_bytes(lzma.compress(stripped(library), preset=6))
    print(f"{asked.out}: {asked.out.stat().st_size / 2**20:.1f} MiB of {len(library) / 2**20:.0f}")
    return 0


def sections(library: bytearray) -> dict[str, tuple[int, int]]:
    """{name: (offset, bytes)} of a 64-bit ELF file."""
    (table,) = struct.unpack_from("<Q", library, 40)
    size, count, names = struct.unpack_from("<HHH", library, 58)
    headers = [struct.unpack_from("<IIQQQQ", library, table + each * size) for each in range(count)]
    text = headers[names][4]
    return {
        library[text + name : library.index(0, text + name)].decode(): (offset, length)
        for name, _, _, _, offset, length in headers
    }


def keep_only(library: bytearray, start: int, size: int, *, capability: int) -> Counter[int]:
    """Zero the kernels for other GPUs, and tell the bytes of each kind."""
    found, place = Counter[int](), start
    while place < start + size:
        magic, _, header, length = struct.unpack_from("<IHHQ", library, place)
        if magic != MAGIC:
            place += 8
            continue
        entry, place = place + header, place + header + length
        while entry < place:
            own_header, num_bytes = struct.unpack_from("<IQ", library, entry + 4)
            (kind,) = struct.unpack_from("<I", library, entry + 28)
            found[kind] += num_bytes
            if kind != capability:
                library[entry + own_header : entry + own_header + num_bytes] = bytes(num_bytes)
            entry += own_header + num_bytes
    return found


def stripped(library: bytearray) -> bytes:
    """Without what debuggers read, where binutils are there."""
    if not shutil.which("strip"):
        return bytes(library)
    with tempfile.NamedTemporaryFile() as file:
        file.write(library)
        file.flush()
        subprocess.run(["strip", "--strip-debug", file.name], check=True)
        return Path(file.name).read_bytes()


if __name__ == "__main__":
    sys.exit(main())
