"""Makes the wheel of one target: wheel.py VERSION TARGET FOLDER OUT. FOLDER has the binary.

A wheel with nothing but a script needs no build tool: its layout is PEP 427's.
"""

import base64
import hashlib
import pathlib
import sys
import zipfile

NAME = "forge_agent"
TAGS = {
    "x86_64-unknown-linux-gnu": "manylinux_2_35_x86_64",
    "aarch64-unknown-linux-gnu": "manylinux_2_35_aarch64",
    "x86_64-unknown-linux-musl": "musllinux_1_1_x86_64.manylinux_2_17_x86_64",
    "aarch64-unknown-linux-musl": "musllinux_1_1_aarch64.manylinux_2_17_aarch64",
    "x86_64-apple-darwin": "macosx_11_0_x86_64",
    "aarch64-apple-darwin": "macosx_11_0_arm64",
    "x86_64-pc-windows-msvc": "win_amd64",
}
METADATA = """\
Metadata-Version: 2.1
Name: forge-agent
Version: {version}
Summary: Run LLM agents for as long as the work takes: every prompt fits the model's context window
License: MIT OR Apache-2.0
Requires-Python: >=3.8
Description-Content-Type: text/markdown

{readme}"""
WHEEL = """\
Wheel-Version: 1.0
Generator: forge
Root-Is-Purelib: false
{tags}"""


def main():
    version, target, folder, out = sys.argv[1:]
    tag = TAGS[target]
    binary = next(path for path in pathlib.Path(folder).iterdir() if path.name in ("forge", "forge.exe"))
    readme = (pathlib.Path(__file__).parents[2] / "README.md").read_text()
    info = f"{NAME}-{version}.dist-info"
    tags = "".join(f"Tag: py3-none-{one}\n" for one in tag.split("."))
    files = [
        (f"{NAME}-{version}.data/scripts/{binary.name}", binary.read_bytes(), 0o755),
        (f"{info}/METADATA", METADATA.format(version=version, readme=readme).encode(), 0o644),
        (f"{info}/WHEEL", WHEEL.format(tags=tags).encode(), 0o644),
    ]
    record = ""
    for name, data, _ in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    files.append((f"{info}/RECORD", (record + f"{info}/RECORD,,\n").encode(), 0o644))
    path = pathlib.Path(out) / f"{NAME}-{version}-py3-none-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data, mode in files:
            entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    print(path)


main()
