# SPDX-License-Identifier: Apache-2.0
"""Descriptors of .proto files, made by Debian's protoc, for the checks of the published interface."""

import pathlib
import subprocess
import tempfile

from google.protobuf import descriptor_pb2

HERE = pathlib.Path(__file__).resolve().parent


def compile_protos(root=HERE):
    """Returns the FileDescriptorSet of all files below root/quorate and of what they import, with the positions of the
    declarations, and the set of the names of those files. Imports are relative to `root`. Raises ValueError, with what
    protoc says, if a file is not valid."""
    root = pathlib.Path(root)
    names = sorted(str(path.relative_to(root)) for path in root.glob("quorate/**/*.proto"))
    with tempfile.TemporaryDirectory(prefix="quorate-proto-") as directory:
        out = pathlib.Path(directory, "set")
        done = subprocess.run(["protoc", f"-I{root}", "--include_imports", "--include_source_info",
                               f"--descriptor_set_out={out}", *names], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ValueError(done.stderr)
        return descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()), set(names)
